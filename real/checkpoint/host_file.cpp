#include "real/checkpoint/host_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include "engine/base/error.h"

namespace trainyard {

namespace {

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void fail_with_errno(const std::string& path, const std::string& action) {
  const int code = errno;
  throw BackendError(path + ": cannot " + action + ": " + std::generic_category().message(code));
}

void refuse(const std::string& path, const std::string& reason) {
  throw ConfigError(SourcePos{path}, "", reason);
}

OutputFile::OutputFile(std::string path) : draft_(std::move(path)) {}

void OutputFile::append(std::span<const std::byte> bytes) {
  constexpr std::size_t kMostAtOnce = std::size_t{64} << 20U;  // hashed while it is in the cache
  while (!bytes.empty()) {
    const std::size_t size = std::min(bytes.size(), kMostAtOnce);
    const ssize_t written = ::write(draft_.descriptor(), bytes.data(), size);
    if (written < 0) {
      if (errno == EINTR) continue;
      fail_with_errno(draft_.path(), "write");
    }
    const auto done = static_cast<std::size_t>(written);
    sha256_.update(as_text(bytes.first(done)));
    bytes_ += written;
    bytes = bytes.subspan(done);
  }
}

FileStamp OutputFile::finish() {
  if (::fsync(draft_.descriptor()) != 0) fail_with_errno(draft_.path(), "flush");
  draft_.publish();
  return {bytes_, sha256_.hex()};
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 sha256;
  sha256.update(as_text(bytes));
  return sha256.hex();
}

void flush_folder(const std::string& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail_with_errno(folder, "open");
  const int result = ::fsync(descriptor);
  const int code = errno;
  ::close(descriptor);
  errno = code;
  // Some network file systems cannot flush a folder, and need not.
  if (result != 0 && errno != EINVAL) fail_with_errno(folder, "flush");
}

}  // namespace trainyard
