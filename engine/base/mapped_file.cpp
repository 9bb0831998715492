#include "engine/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "engine/base/error.h"

namespace trainyard {

namespace {

[[noreturn]] void fail(const std::string& path, const std::string& reason) {
  throw ConfigError(path + ": " + reason);
}

std::string last_error() { return std::generic_category().message(errno); }

/// Closes the descriptor at the end of its scope; the mapping outlives it.
struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  // O_NONBLOCK: a named pipe is refused below instead of waited for.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.number < 0) fail(path, last_error());
  struct stat status = {};
  if (::fstat(file.number, &status) != 0) fail(path, last_error());
  if (!S_ISREG(status.st_mode)) fail(path, "not a regular file");
  if (status.st_size == 0) fail(path, "the file is empty");
  const auto size = static_cast<std::size_t>(status.st_size);
  void* const start = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.number, 0);
  if (start == MAP_FAILED) fail(path, "cannot be mapped into memory: " + last_error());
  bytes_ = {static_cast<const std::byte*>(start), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      bytes_(std::exchange(other.bytes_, {})) {}

}  // namespace trainyard
