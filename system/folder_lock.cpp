#include "system/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "engine/base/error.h"
#include "engine/base/format.h"
#include "engine/base/plain_text.h"
#include "engine/base/user_text.h"
#include "system/terminal.h"

namespace trainyard {

namespace {

namespace fs = std::filesystem;

/// Who took the flock of the file, as /proc/locks has it; nullopt: none of this machine (or
/// container).
std::optional<pid_t> locker_of(const struct stat& file) {
  const std::string place = format("%02x:%02x:%llu", major(file.st_dev), minor(file.st_dev),
                                   static_cast<unsigned long long>(file.st_ino));
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    // "2: FLOCK  ADVISORY  WRITE 11461 fe:00:10952758 0 EOF"; "->" for those that wait for it
    std::istringstream words(line);
    std::string number, kind, mode, access, where;
    pid_t process = 0;
    words >> number >> kind >> mode >> access >> process >> where;
    if (words && kind == "FLOCK" && where == place && process > 0) return process;
  }
  return std::nullopt;
}

std::string command_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/cmdline", std::ios::binary);
  std::string words{std::istreambuf_iterator<char>(file), {}};
  while (!words.empty() && words.back() == '\0') words.pop_back();
  std::replace(words.begin(), words.end(), '\0', ' ');
  return printable(words, 160);
}

/// One of those that have the folder open: where who took the lock is gone, and a process that it
/// started is not.
std::optional<pid_t> opener_of(const std::string& folder) {
  std::error_code error;
  const fs::path path = fs::canonical(folder, error);
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    pid_t process = 0;
    const auto [end, wrong] = std::from_chars(name.data(), name.data() + name.size(), process);
    if (wrong != std::errc() || end != name.data() + name.size() || process == getpid()) continue;
    std::error_code unreadable;
    fs::directory_iterator files(entry.path() / "fd", unreadable);
    for (; !unreadable && files != fs::directory_iterator(); files.increment(unreadable)) {
      std::error_code gone;
      if (fs::read_symlink(files->path(), gone) == path) return process;
    }
  }
  return std::nullopt;
}

std::string holder_of(const std::string& folder) {
  struct stat file = {};
  std::optional<pid_t> process;
  if (stat(folder.c_str(), &file) == 0) process = locker_of(file);
  if (!process || command_of(*process).empty()) {
    if (const auto other = opener_of(folder)) process = other;
  }
  if (!process) return "a process that cannot be seen from here";
  const std::string command = command_of(*process);
  return "process " + std::to_string(*process) + (command.empty() ? "" : " (" + command + ")");
}

/// The path, where nothing but folders is on it.
const std::string& without_files(const std::string& path) {
  std::error_code ignored;
  for (fs::path at = fs::absolute(path).lexically_normal(); at.has_relative_path();
       at = at.parent_path()) {
    const fs::file_status there = fs::status(at, ignored);
    if (fs::is_directory(there)) break;
    if (fs::exists(there))
      throw ConfigError("--out " + path + ": " + in_quotes(at.string()) +
                        " is a file; name a folder");
  }
  return path;
}

bool is_at(int descriptor, const std::string& folder) {
  struct stat opened = {}, there = {};
  return fstat(descriptor, &opened) == 0 && stat(folder.c_str(), &there) == 0 &&
         opened.st_dev == there.st_dev && opened.st_ino == there.st_ino;
}

}  // namespace

FolderLock::FolderLock(const std::string& folder) : folder_(without_files(folder)) {
  // Inherited by what this process starts: ranks that outlive it write on.
  descriptor_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY);
  if (descriptor_ < 0)
    throw BackendError("cannot open the folder " + plain_text(folder) + ": " +
                       std::strerror(errno));
  while (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    const int reason = errno;
    if (reason == EWOULDBLOCK) {
      ::close(descriptor_);
      folder_.keep();  // it is the other's now
      throw ConfigError(
          "--out " + folder + ": " + holder_of(folder) +
          " is writing in this folder; wait until it has ended, or name another folder");
    }
    print_warnings({"--out " + folder + ": its file system has no locks (" + std::strerror(reason) +
                    "): nothing keeps another command from writing in it at the same time"});
    return;
  }
  held_ = is_at(descriptor_, folder);
  if (held_) return;
  ::close(descriptor_);
  folder_.keep();
  throw ConfigError(
      "--out " + folder +
      ": was removed by another command just now; the same command may go well again");
}

FolderLock::~FolderLock() {
  // The folder goes, if it does, while nobody else can have its lock.
  folder_.remove_if_empty();
  ::close(descriptor_);
}

}  // namespace trainyard
