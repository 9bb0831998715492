#include "system/run_points.h"

#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>

#include "engine/base/error.h"

namespace trainyard {

namespace {

/// False: the other end is gone.
bool send_all(int socket, const void* data, std::size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t sent = send(socket, at, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    size -= sent;
  }
  return true;
}

bool receive_all(int socket, void* data, std::size_t size) {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = recv(socket, at, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= got;
  }
  return true;
}

constexpr auto kGrace = std::chrono::seconds(2);

struct AnswerHeader {
  std::uint64_t size = 0;
  bool failed = false;
};

/// The life of a worker: index in, answer out, until the socket is closed.
void serve(int socket, const std::function<std::string(std::size_t)>& work) {
  std::uint64_t index = 0;
  while (receive_all(socket, &index, sizeof index)) {
    AnswerHeader header;
    std::string text;
    try {
      text = work(index);
    } catch (const std::bad_alloc&) {
      header.failed = true;
      text = "out of memory on this machine";
    } catch (const std::exception& error) {
      header.failed = true;
      text = error.what();
    }
    if (header.failed && text.empty()) text = "an error without a message";
    header.size = text.size();
    if (!send_all(socket, &header, sizeof header) || !send_all(socket, text.data(), text.size()))
      return;
  }
}

// The one process-wide state here: a signal handler can say things in no other way.
volatile std::sig_atomic_t noted_signal = 0;
extern "C" void note_signal(int signal) { noted_signal = signal; }

struct SignalCame {
  int signal;
};

/// While it lives, Ctrl-C and friends arrive only in wait(), which then throws SignalCame, so that
/// workers are ended and waited for before this process goes.
class SignalWait {
 public:
  SignalWait() {
    sigset_t blocked;
    sigemptyset(&blocked);
    struct sigaction action = {};
    action.sa_handler = note_signal;
    noted_signal = 0;
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      sigaction(kSignals[i], nullptr, &before_[i]);
      if (before_[i].sa_handler == SIG_IGN) continue;  // in the background, under nohup
      sigaddset(&blocked, kSignals[i]);
      sigaction(kSignals[i], &action, nullptr);
    }
    sigprocmask(SIG_BLOCK, &blocked, &unblocked_);
  }
  ~SignalWait() { restore(); }
  SignalWait(const SignalWait&) = delete;
  SignalWait& operator=(const SignalWait&) = delete;

  void restore() const {
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
    sigprocmask(SIG_SETMASK, &unblocked_, nullptr);
  }

  /// In a worker: signals are its own, and never what they are to the command.
  void leave_to_worker(bool notes) const {
    noted_signal = 0;
    for (const int signal : kSignals) std::signal(signal, notes ? note_signal : SIG_DFL);
    sigprocmask(SIG_SETMASK, &unblocked_, nullptr);
  }

  /// `until`: nullptr: for ever.
  void wait(std::vector<pollfd>& sockets, const timespec* until = nullptr) const {
    for (pollfd& socket : sockets) socket.revents = 0;  // where a signal ends the wait
    const int ready = ppoll(sockets.data(), sockets.size(), until, &unblocked_);
    if (const int signal = noted_signal; signal != 0) {
      noted_signal = 0;
      throw SignalCame{signal};
    }
    if (ready < 0 && errno != EINTR) {
      throw BackendError(std::string("cannot wait for worker processes: ") + std::strerror(errno));
    }
  }

 private:
  static constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, 3> before_{};
  sigset_t unblocked_{};
};

/// One forked process and the socket to it. Gone when this is destroyed.
class Worker {
 public:
  /// `others`: sockets that belong to this process alone.
  Worker(const std::function<std::string(std::size_t)>& work, const std::vector<int>& others,
         const SignalWait& signals, bool keeps_finished) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
      throw BackendError(std::string("no socket to a worker process: ") + std::strerror(errno));
    }
    const pid_t parent = getpid();
    process_ = fork();
    if (process_ < 0) {
      const int error = errno;
      close(ends[0]);
      close(ends[1]);
      throw BackendError(std::string("cannot start a worker process: ") + std::strerror(error));
    }
    if (process_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(0);  // it ended before it could be told to
      signals.leave_to_worker(keeps_finished);
      close(ends[0]);
      for (const int socket : others) close(socket);
      serve(ends[1], work);
      _exit(0);
    }
    close(ends[1]);
    socket_ = ends[0];
  }
  ~Worker() {
    close(socket_);
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    reap();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  int socket() const { return socket_; }
  std::size_t item() const { return item_; }

  bool give(std::size_t item) {
    item_ = item;
    const std::uint64_t index = item;
    return send_all(socket_, &index, sizeof index);
  }

  void tell_to_stop() const { kill(process_, SIGTERM); }

  /// nullopt: the process ended before it had answered.
  std::optional<PointAnswer> take() {
    AnswerHeader header;
    if (!receive_all(socket_, &header, sizeof header)) return std::nullopt;
    std::string text(header.size, '\0');
    if (!receive_all(socket_, text.data(), text.size())) return std::nullopt;
    return header.failed ? PointAnswer{"", std::move(text), true}
                         : PointAnswer{std::move(text), "", true};
  }

  /// How a process that answers no more has ended.
  std::string obituary() {
    const int status = reap();
    if (WIFSIGNALED(status)) {
      return std::string("its process was ended by a signal: ") + strsignal(WTERMSIG(status));
    }
    return "its process ended with exit code " + std::to_string(WEXITSTATUS(status));
  }

 private:
  int reap() {
    int status = 0;
    while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
    process_ = 0;
    return status;
  }

  pid_t process_ = 0;
  int socket_ = -1;
  std::size_t item_ = 0;
};

/// "  57 of 477 cases" on a terminal's last line, a few times a second.
class Progress {
 public:
  Progress(std::size_t count, std::string noun)
      : count_(count),
        noun_(std::move(noun)),
        shown_(!noun_.empty() && isatty(STDERR_FILENO) == 1) {}
  ~Progress() {
    if (shown_) std::fputs("\r\033[K", stderr);
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void one_more() {
    ++done_;
    const auto now = std::chrono::steady_clock::now();
    if (!shown_ || now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    std::fprintf(stderr, "\r\033[K%zu of %zu %s", done_, count_, noun_.c_str());
    std::fflush(stderr);
  }

 private:
  std::size_t count_, done_ = 0;
  std::string noun_;
  bool shown_;
  std::chrono::steady_clock::time_point last_{};
};

std::vector<PointAnswer> spread(std::size_t count,
                                const std::function<std::string(std::size_t)>& work,
                                const PointsOptions& options) {
  std::vector<PointAnswer> answers(count);
  const auto jobs = static_cast<std::size_t>(options.jobs > 0 ? options.jobs : num_usable_cores());
  const SignalWait signals;
  std::vector<std::unique_ptr<Worker>> workers;
  std::size_t next = 0;
  const auto start = [&] {
    std::vector<int> others;
    for (const auto& worker : workers) others.push_back(worker->socket());
    workers.push_back(std::make_unique<Worker>(work, others, signals, options.keep_finished));
    // A worker that is gone already is found out when its answer is awaited.
    workers.back()->give(next++);
  };
  while (workers.size() < std::min(jobs, count)) start();

  Progress progress(count, options.noun);
  int signal = 0;  // that told the workers to stop
  std::chrono::steady_clock::time_point until;
  while (!workers.empty()) {
    std::vector<pollfd> waiting;
    for (const auto& worker : workers) waiting.push_back({worker->socket(), POLLIN, 0});
    if (signal == 0) {
      try {
        signals.wait(waiting);
      } catch (const SignalCame& by) {
        if (!options.keep_finished) throw;
        signal = by.signal;
        next = count;
        until = std::chrono::steady_clock::now() + kGrace;
        for (const auto& worker : workers) worker->tell_to_stop();
        continue;
      }
    } else {
      if (std::chrono::steady_clock::now() > until) break;
      constexpr timespec kLook = {0, 50'000'000};
      signals.wait(waiting, &kLook);
    }
    for (std::size_t w = waiting.size(); w-- > 0;) {
      if (waiting[w].revents == 0) continue;
      Worker& worker = *workers[w];
      std::optional<PointAnswer> answer = worker.take();
      const bool gone = !answer;
      // One that a signal meets before it has work to return has finished nothing.
      if (!gone || signal == 0)
        answers[worker.item()] =
            gone ? PointAnswer{"", worker.obituary(), true} : *std::move(answer);
      progress.one_more();
      if (!gone && next < count) {
        worker.give(next++);
        continue;
      }
      workers.erase(workers.begin() + static_cast<std::ptrdiff_t>(w));
      if (next < count) start();
    }
  }
  workers.clear();
  if (signal != 0) throw Interrupted{signal, std::move(answers)};
  return answers;
}

}  // namespace

bool told_to_stop() { return noted_signal != 0; }

int num_usable_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

std::vector<PointAnswer> run_points(std::size_t count,
                                    const std::function<std::string(std::size_t)>& work,
                                    const PointsOptions& options) {
  // What this process has not written yet must not be written by its children too.
  std::fflush(stdout);
  std::fflush(stderr);
  try {
    return spread(count, work, options);
  } catch (const SignalCame& by) {
    // The workers are gone and the signal's own action is back: as if it had come now.
    std::raise(by.signal);
    throw BackendError(std::string("ended by a signal: ") + strsignal(by.signal));
  }
}

}  // namespace trainyard
