#include "cli/files.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "engine/base/error.h"

namespace trainyard {

namespace {

// Path of the file being written, for the signal handler; empty: none. The one process-wide state of
// the command line: a signal handler can be told things in no other way.
volatile std::sig_atomic_t part_known = 0;
char part_path[4096];

extern "C" void remove_part_and_die(int signal) {
  if (part_known != 0) unlink(part_path);
  std::signal(signal, SIG_DFL);
  raise(signal);
}

/// While it lives, Ctrl-C and friends remove the unfinished file before they end the process.
class PartGuard {
 public:
  explicit PartGuard(const std::string& path) {
    if (path.size() + 1 > sizeof part_path) return;
    std::memcpy(part_path, path.c_str(), path.size() + 1);
    part_known = 1;
    for (std::size_t i = 0; i < kSignals.size(); ++i) before_[i] = std::signal(kSignals[i], remove_part_and_die);
  }
  ~PartGuard() {
    if (part_known == 0) return;
    part_known = 0;
    for (std::size_t i = 0; i < kSignals.size(); ++i) std::signal(kSignals[i], before_[i]);
  }
  PartGuard(const PartGuard&) = delete;
  PartGuard& operator=(const PartGuard&) = delete;

 private:
  static constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};
  std::array<void (*)(int), 3> before_{};
};

}  // namespace

std::string read_file(const std::string& path) {
  if (std::filesystem::is_directory(path)) throw ConfigError(path + ": is a folder");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw ConfigError(path + ": " + std::strerror(errno));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void make_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw BackendError("cannot make the folder " + folder + ": " + error.message());
}

void write_file(const std::string& path,
                const std::function<void(const std::function<void(std::string_view)>&)>& produce) {
  const std::string part = path + ".part" + std::to_string(getpid());
  const PartGuard guard(part);
  std::ofstream file(part, std::ios::binary | std::ios::trunc);
  produce([&](std::string_view piece) { file.write(piece.data(), static_cast<std::streamsize>(piece.size())); });
  file.close();
  std::error_code error;
  if (!file) {
    const std::string reason = std::strerror(errno);
    std::filesystem::remove(part, error);
    throw BackendError("cannot write " + path + ": " + reason);
  }
  std::filesystem::rename(part, path, error);
  if (error) {
    const std::string reason = error.message();
    std::filesystem::remove(part, error);
    throw BackendError("cannot write " + path + ": " + reason);
  }
}

void write_file(const std::string& path, std::string_view text) {
  write_file(path, [&](const std::function<void(std::string_view)>& sink) { sink(text); });
}

}  // namespace trainyard
