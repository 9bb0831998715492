// A program started as a shell starts it, in a process group of its own, to be sent signals.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/scratch_folder.h"

namespace trainyard {

/// Looks every few milliseconds, for a minute at most unless said.
inline bool wait_until(const std::function<bool()>& holds, int seconds = 60) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (std::chrono::steady_clock::now() < end) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

class ChildProcess {
 public:
  /// Its stdout goes to `out`, a file; its stderr into a file of `folder`.
  ChildProcess(const ScratchFolder& folder, const std::vector<std::string>& words,
               const std::string& out = "/dev/null")
      : error_file_(folder / ("err" + std::to_string(++number()))) {
    process_ = fork();
    if (process_ == 0) {
      setpgid(0, 0);
      redirect(STDOUT_FILENO, out);
      redirect(STDERR_FILENO, error_file_);
      std::vector<char*> argv;
      for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
      argv.push_back(nullptr);
      for (const int signal : {SIGINT, SIGTERM}) ::signal(signal, SIG_DFL);
      execv(argv[0], argv.data());
      _exit(127);
    }
    setpgid(process_, process_);
  }
  ~ChildProcess() {
    if (!ended_) kill(-process_, SIGKILL);
    end();
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t id() const { return process_; }
  std::string err() const { return read_text(error_file_); }
  void send(int signal) const { kill(process_, signal); }
  void send_to_group(int signal) const { kill(-process_, signal); }

  /// -1: a signal ended it, -2: it did not end in a minute.
  int end() {
    const auto gone = [&] {
      if (!ended_ && waitpid(process_, &status_, WNOHANG) == process_) ended_ = true;
      return ended_;
    };
    if (!wait_until(gone)) return -2;
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : -1;
  }
  bool has_ended() {
    if (!ended_ && waitpid(process_, &status_, WNOHANG) == process_) ended_ = true;
    return ended_;
  }

  /// CPU time of the process and those that it has started.
  double cpu_seconds() const {
    double ticks = 0;
    for (const pid_t process : with_children()) {
      std::ifstream file("/proc/" + std::to_string(process) + "/stat");
      std::string text{std::istreambuf_iterator<char>(file), {}};
      std::istringstream fields(text.substr(std::min(text.rfind(')') + 1, text.size())));
      std::string word;
      for (int i = 3; fields >> word; ++i) {
        if (i == 14 || i == 15) ticks += std::stod(word);  // utime, stime: proc(5)
      }
    }
    return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
  }

  /// Whether it has a handler of its own for this signal: SigCgt of proc(5). Until it is another
  /// program than this one, handlers are this one's.
  bool catches(int signal) const {
    const std::string process = "/proc/" + std::to_string(process_);
    std::error_code error;
    if (std::filesystem::equivalent(process + "/exe", "/proc/self/exe", error)) return false;
    std::ifstream file(process + "/status");
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("SigCgt:"))
        return (std::stoull(line.substr(7), nullptr, 16) >> static_cast<unsigned>(signal - 1) &
                1U) != 0;
    }
    return false;
  }

 private:
  static int& number() {
    static int number = 0;
    return number;
  }
  static void redirect(int descriptor, const std::string& path) {
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    dup2(file, descriptor);
    close(file);
  }
  std::vector<pid_t> with_children() const {
    std::vector<pid_t> all = {process_};
    std::ifstream file("/proc/" + std::to_string(process_) + "/task/" + std::to_string(process_) +
                       "/children");
    for (pid_t child = 0; file >> child;) all.push_back(child);
    return all;
  }

  std::string error_file_;
  pid_t process_ = -1;
  int status_ = 0;
  bool ended_ = false;
};

}  // namespace trainyard
