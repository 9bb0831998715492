// A file mapped read-only into memory: pages are read when they are touched and shared between the
// ranks of a machine.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace trainyard {

/// ASSUME: nobody shortens the file while it is mapped; the system would end the process with
/// SIGBUS.
class MappedFile {
 public:
  /// Throws ConfigError, "PATH: reason", where the file cannot be opened or mapped, is not a
  /// regular file, or is empty.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::string path_;
  std::span<const std::byte> bytes_;
};

}  // namespace trainyard
