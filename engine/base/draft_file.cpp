#include "engine/base/draft_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/plain_text.h"

namespace trainyard {

namespace {

constexpr std::string_view kMark = ".part";
constexpr std::size_t kBuffer = std::size_t{1} << 18U;

// Paths of drafts, for a handler of signals, which can be told things in no other way.
constexpr std::size_t kMostDrafts = 256;
std::array<std::atomic<char*>, kMostDrafts> drafts;
static_assert(std::atomic<char*>::is_always_lock_free);

/// -1: there are too many; the next start removes what is left of those.
int remember(const std::string& path) {
  char* copy = strdup(path.c_str());
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    char* none = nullptr;
    if (drafts[i].compare_exchange_strong(none, copy)) return static_cast<int>(i);
  }
  std::free(copy);
  return -1;
}

void forget(int slot) {
  if (slot < 0) return;
  std::free(drafts[static_cast<std::size_t>(slot)].exchange(nullptr));
}

}  // namespace

int open_new_file(const std::string& path) {
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
}

DraftFile::DraftFile(std::string path)
    : path_(std::move(path)),
      draft_(path_ + std::string(kMark) + std::to_string(getpid())),
      slot_(remember(draft_)) {
  descriptor_ = open_new_file(draft_);
  if (descriptor_ < 0 && errno == EEXIST) {
    // Left by a process that had our number and died, or put there: the name goes, not what it
    // leads to.
    ::unlink(draft_.c_str());
    descriptor_ = open_new_file(draft_);
  }
  if (descriptor_ < 0) {
    const int reason = errno;
    forget(slot_);
    fail(reason);
  }
  ::flock(descriptor_, LOCK_EX | LOCK_NB);  // remove_stale_draft() asks for it
}

DraftFile::DraftFile(DraftFile&& other) noexcept
    : path_(std::move(other.path_)),
      draft_(std::exchange(other.draft_, {})),
      buffer_(std::move(other.buffer_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      slot_(std::exchange(other.slot_, -1)) {}

DraftFile::~DraftFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!draft_.empty()) ::unlink(draft_.c_str());
  forget(slot_);
}

void DraftFile::fail(int code) const {
  throw BackendError("cannot write " + plain_text(path_) + ": " + std::strerror(code));
}

void DraftFile::write(std::string_view bytes) {
  buffer_ += bytes;
  if (buffer_.size() >= kBuffer) flush();
}

void DraftFile::flush() {
  for (std::string_view left = buffer_; !left.empty();) {
    const ssize_t written = ::write(descriptor_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(errno);
    left.remove_prefix(written);
  }
  buffer_.clear();
}

void DraftFile::close() {
  if (descriptor_ < 0) return;
  flush();
  if (::close(std::exchange(descriptor_, -1)) != 0) fail(errno);
}

void DraftFile::publish() {
  close();
  if (::rename(draft_.c_str(), path_.c_str()) != 0) fail(errno);
  draft_.clear();
}

DraftFolder::DraftFolder(const std::string& path) {
  namespace fs = std::filesystem;
  const auto fail = [&](const std::string& reason) {
    throw BackendError("cannot make the folder " + plain_text(path) + ": " + reason);
  };
  std::error_code error;
  std::vector<fs::path> missing;
  for (fs::path at = fs::absolute(path).lexically_normal(); !at.empty() && !fs::exists(at, error);
       at = at.parent_path()) {
    if (error) fail(error.message());
    if (at.has_filename()) missing.push_back(at);
  }
  for (auto at = missing.rbegin(); at != missing.rend(); ++at) {
    const int slot = remember(at->string());  // first: a signal may come right behind mkdir()
    if (::mkdir(at->c_str(), 0777) == 0) {
      made_.push_back(at->string());
      slots_.push_back(slot);
      continue;
    }
    const int reason = errno;
    forget(slot);
    if (reason != EEXIST) fail(std::strerror(reason));
  }
  if (!fs::is_directory(path, error)) fail(std::strerror(ENOTDIR));
}

DraftFolder::~DraftFolder() { remove_if_empty(); }

void DraftFolder::remove_if_empty() {
  for (auto made = made_.rbegin(); made != made_.rend(); ++made) ::rmdir(made->c_str());
  keep();
}

void DraftFolder::keep() {
  for (const int slot : slots_) forget(slot);
  made_.clear();
  slots_.clear();
}

void remove_drafts() {
  // What lies in a folder was remembered after it, mostly in a place behind it.
  for (auto draft = drafts.rbegin(); draft != drafts.rend(); ++draft) {
    const char* path = draft->load();
    if (path != nullptr && ::unlink(path) != 0) ::rmdir(path);
  }
}

bool is_draft_of(std::string_view name, std::string_view file) {
  if (!name.starts_with(file)) return false;
  name.remove_prefix(file.size());
  if (!name.starts_with(kMark)) return false;
  name.remove_prefix(kMark.size());
  return !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
}

void remove_stale_draft(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  const bool stale =
      descriptor < 0 || ::flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
  if (stale) ::unlink(path.c_str());
  if (descriptor >= 0) ::close(descriptor);
}

}  // namespace trainyard
