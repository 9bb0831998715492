// A training run in the background, with the processes of its ranks.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <ios>
#include <string>
#include <thread>
#include <vector>

#include "tests/real/run/training_folder.h"

namespace trainyard {

/// How long tests wait for what comes at once on a machine without other load.
inline constexpr double kPatience = 60;
inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

class BackgroundTraining {
 public:
  /// `variables`: of the environment, "NAME=value ".
  BackgroundTraining(const TrainingFolder& folder, const std::string& arguments,
                     const std::string& variables = "")
      : folder_(folder) {
    thread_ = std::thread([this, arguments, variables] {
      answer_ = folder_.shell(variables + "exec " + folder_.command(arguments));
      done_ = true;
    });
  }
  /// Ends the run, if the test has not.
  ~BackgroundTraining() {
    if (!done_) {
      for (const pid_t process : processes("")) kill(process, SIGKILL);
    }
    thread_.join();
  }

  /// Waits until the run has done `steps` steps; false when it ended before, or has not come so far
  /// in kPatience.
  bool wait_for_steps(const std::string& run, std::size_t steps) const {
    const auto begin = std::chrono::steady_clock::now();
    while (!done_ && seconds_since(begin) < kPatience) {
      std::ifstream in(folder_.path(run) + "/losses.csv");
      std::size_t lines = 0;
      for (std::string line; std::getline(in, line);) ++lines;
      if (lines > steps) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

  /// Processes whose command line names this folder's study, ranks (told by TRAINYARD_RANK) only.
  std::vector<pid_t> ranks() const { return processes("TRAINYARD_RANK="); }
  pid_t rank(std::int64_t number, const std::string& variable = "TRAINYARD_RANK=") const {
    const auto found = processes(variable + std::to_string(number) + std::string(1, '\0'));
    return found.empty() ? -1 : found.front();
  }

  /// The process that starts the ranks; -1: not seen in kPatience.
  pid_t supervisor() const {
    const auto begin = std::chrono::steady_clock::now();
    while (!done_ && seconds_since(begin) < kPatience) {
      for (const pid_t process : processes("")) {
        const std::string place = "/proc/" + std::to_string(process);
        const bool shell = of_process(place + "/cmdline").find(TRAINYARD_REAL) != 0;
        if (!shell && of_process(place + "/environ").find("TRAINYARD_RANK=") == std::string::npos)
          return process;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return -1;
  }
  /// Waits until no process of the run is left, its ranks included; false: some stay.
  bool wait_for_end(double seconds) const {
    const auto begin = std::chrono::steady_clock::now();
    while (seconds_since(begin) < seconds) {
      if (done_ && processes("").empty()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }

  /// Answer of the run once it has ended; of one that has not in kPatience: no command's exit code.
  Answer answer() {
    const auto begin = std::chrono::steady_clock::now();
    while (!done_ && seconds_since(begin) < kPatience)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return done_ ? answer_ : Answer{-1, "", "the run goes on"};
  }

 private:
  /// What proc says of a process; nothing of one that ends while it is read.
  static std::string of_process(const std::string& path) {
    try {
      return read_text(path);
    } catch (const std::ios_base::failure&) {
      return {};
    }
  }

  std::vector<pid_t> processes(const std::string& variable) const {
    std::vector<pid_t> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      const std::string command = of_process(entry.path() / "cmdline");
      if (command.find(folder_.path("study.yaml")) == std::string::npos) continue;
      const std::string environment = of_process(entry.path() / "environ");
      if (environment.find(variable) != std::string::npos) found.push_back(std::stoi(name));
    }
    return found;
  }

  const TrainingFolder& folder_;
  Answer answer_;
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

}  // namespace trainyard
