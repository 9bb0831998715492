// Files written so that they are on disk when we say so. Where the system refuses, BackendError
// with the path, what was tried and the system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "engine/base/draft_file.h"
#include "engine/base/hash.h"

namespace trainyard {

/// What tells a file apart from a damaged copy of itself.
struct FileStamp {
  std::int64_t bytes = 0;
  std::string sha256;  // lowercase hex
};

/// A new file, written from its first byte to its last, under a draft's name until finish().
/// Removed again unless that was reached.
class OutputFile {
 public:
  explicit OutputFile(std::string path);  // replaces a file of that name
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void append(std::span<const std::byte> bytes);
  FileStamp finish();  // flushed to the device, then closed and renamed

 private:
  DraftFile draft_;
  std::int64_t bytes_ = 0;
  Sha256 sha256_;
};

std::string sha256_hex(std::span<const std::byte> bytes);

/// Makes names that were created, renamed or removed in `folder` outlast a power cut.
void flush_folder(const std::string& folder);

/// "PATH: cannot ACTION: No space left on device", from errno.
[[noreturn]] void fail_with_errno(const std::string& path, const std::string& action);

/// The file is there but not what it should be: ConfigError, "PATH: REASON".
[[noreturn]] void refuse(const std::string& path, const std::string& reason);

}  // namespace trainyard
