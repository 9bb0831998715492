#include "real/launch/local_launcher.h"

#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "engine/base/error.h"
#include "real/comm/rendezvous.h"
#include "real/launch/heartbeats.h"
#include "real/launch/stop_agreement.h"
#include "system/exit_code.h"
#include "system/interrupt.h"
#include "system/terminal.h"

extern char** environ;

namespace trainyard {

namespace {

using namespace std::chrono_literals;

constexpr const char* kSupervisor = "TRAINYARD_SUPERVISOR";  // its process

struct RankProcess {
  std::int64_t rank = 0;
  pid_t pid = -1;
};

class Supervisor {
 public:
  Supervisor(std::vector<std::string> arguments, std::int64_t ranks)
      : arguments_(std::move(arguments)),
        ranks_(ranks),
        store_({"127.0.0.1", 0, true}, 60s) {}

  RunEnd run(std::chrono::steady_clock::time_point until) {
    const NotedSignals signals(2);
    bool asked = false;
    for (std::int64_t rank = 0; rank < ranks_; ++rank) running_.emplace_back(start(rank));
    while (!running_.empty()) {
      if (signals.count() > 0 && !asked) asked = ask_to_stop(signals.first());
      if (signals.count() > (asked ? 1 : 0)) {
        stop_all();
        return {128 + signals.first(), "", signals.first(), ""};
      }
      if (std::chrono::steady_clock::now() >= until) {
        stop_all();
        return {0, "", 0, "", true};
      }
      if (const int exit = reap(); exit != 0) return {exit, message_, 0, ""};
      std::this_thread::sleep_for(20ms);
    }
    if (signals.first() == 0) return {};
    return {128 + signals.first(), "", signals.first(), store_.try_get(kStopKept).value_or("")};
  }

 private:
  /// False: the ranks do not listen, or not yet.
  bool ask_to_stop(int signal) {
    if (!store_.try_get(kStopReady)) return false;
    store_.set(kStopAsked, std::to_string(signal));
    return true;
  }

  RankProcess start(std::int64_t rank) {
    std::vector<std::string> variables;
    for (char** variable = environ; *variable != nullptr; ++variable)
      variables.emplace_back(*variable);
    std::string supervisor = kSupervisor;
    supervisor += "=";
    supervisor += std::to_string(getpid());
    variables.push_back(std::move(supervisor));
    variables.push_back("TRAINYARD_RANK=" + std::to_string(rank));
    variables.push_back("TRAINYARD_WORLD_SIZE=" + std::to_string(ranks_));
    variables.push_back("TRAINYARD_MASTER=127.0.0.1:" + std::to_string(store_.port()));
    // NCCL listens, too, where its communicators meet.
    if (!environment_variable("NCCL_SOCKET_IFNAME"))
      variables.emplace_back("NCCL_SOCKET_IFNAME=lo");
    std::vector<char*> argv, env;
    for (std::string& argument : arguments_) argv.push_back(argument.data());
    for (std::string& variable : variables) env.push_back(variable.data());
    argv.push_back(nullptr);
    env.push_back(nullptr);
    RankProcess process{rank, -1};
    // What reaches the whole process group is this process's to act on.
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    const sigset_t set = ending_signals();
    posix_spawnattr_setsigmask(&attributes, &set);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    const int error =
        posix_spawn(&process.pid, "/proc/self/exe", nullptr, &attributes, argv.data(), env.data());
    posix_spawnattr_destroy(&attributes);
    if (error != 0)
      throw BackendError("starting rank " + std::to_string(rank) + ": " + std::strerror(error));
    return process;
  }

  /// Looks whether a rank has ended. 0: none has failed.
  int reap() {
    for (std::size_t i = 0; i < running_.size(); ++i) {
      int status = 0;
      const RankProcess process = running_[i];
      if (waitpid(process.pid, &status, WNOHANG) != process.pid) continue;
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return reap();
      return explain(process, status);
    }
    return 0;
  }

  /// A rank that was killed is what went wrong; one that failed may have only met the first.
  int explain(const RankProcess& process, int status) {
    if (WIFEXITED(status)) std::this_thread::sleep_for(200ms);
    std::optional<RankProcess> killed;
    int signal = 0;
    if (WIFSIGNALED(status)) {
      killed = process;
      signal = WTERMSIG(status);
    }
    for (auto it = running_.begin(); it != running_.end() && !killed;) {
      int other = 0;
      if (waitpid(it->pid, &other, WNOHANG) != it->pid) {
        ++it;
        continue;
      }
      if (WIFSIGNALED(other)) killed = *it, signal = WTERMSIG(other);
      it = running_.erase(it);
    }
    int exit = kBackendFailed;
    if (killed) {
      say("rank " + std::to_string(killed->rank) + " was killed by signal " +
          std::to_string(signal) + " (" + strsignal(signal) + "), last seen at " +
          last_place(killed->rank));
    } else if (const auto first = store_.try_get("error/first")) {
      exit = std::atoi(first->c_str());
      say(first->substr(first->find(' ') + 1));
    } else {
      say("rank " + std::to_string(process.rank) + " ended with exit code " +
          std::to_string(WEXITSTATUS(status)) + ", last seen at " + last_place(process.rank));
    }
    stop_all();
    return exit;
  }

  std::string last_place(std::int64_t rank) {
    for (const Heartbeat& heartbeat : read_heartbeats(store_, ranks_)) {
      if (heartbeat.rank == rank) return heartbeat.where.empty() ? "its start" : heartbeat.where;
    }
    return "its start";
  }

  void say(const std::string& message) {
    message_ = message;
    trainyard::say(message);
  }

  void stop_all() {
    for (const RankProcess& process : running_) kill(process.pid, SIGKILL);
    const auto until = std::chrono::steady_clock::now() + 1s;
    while (!running_.empty() && std::chrono::steady_clock::now() < until) {
      std::erase_if(running_, [](const RankProcess& process) {
        int status = 0;
        return waitpid(process.pid, &status, WNOHANG) == process.pid;
      });
      std::this_thread::sleep_for(10ms);
    }
  }

  std::vector<std::string> arguments_;
  std::int64_t ranks_;
  Rendezvous store_;
  std::vector<RankProcess> running_;
  std::string message_;  // what has been said of the rank that failed
};

}  // namespace

RunEnd run_local_ranks(const std::vector<std::string>& arguments, std::int64_t ranks,
                       std::chrono::steady_clock::time_point until) {
  return Supervisor(arguments, ranks).run(until);
}

void end_with_supervisor() {
  const auto supervisor = environment_variable(kSupervisor);
  if (!supervisor) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (std::to_string(getppid()) != *supervisor) std::_Exit(kBackendFailed);  // it has gone already
}

bool is_started_by_supervisor() { return environment_variable(kSupervisor).has_value(); }

void report_rank_error(const RankEnvironment& environment, const Failure& failure) {
  try {
    Rendezvous store({environment.master_host, environment.master_port, false}, 2s);
    // What the user wrote is wrong on every rank alike.
    const std::string who =
        failure.exit == kWrongInput ? "" : "rank " + std::to_string(environment.rank) + ": ";
    const std::string text = std::to_string(failure.exit) + " " + who + failure.message;
    if (!store.try_get("error/first")) store.set("error/first", text);
  } catch (const BackendError&) {
    // Nobody keeps the store any more; the message has been printed.
  }
}

}  // namespace trainyard
