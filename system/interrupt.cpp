#include "system/interrupt.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <deque>
#include <string>

#include "engine/base/draft_file.h"
#include "engine/base/plain_text.h"

namespace trainyard {

namespace {

constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};

// A handler of signals can be told things in no other way than by variables of the process.
std::atomic<const char*> kept = "nothing was written";
std::atomic<bool> ends_process = false;
std::atomic<int> noted = 0;  // the first
std::atomic<int> num_noted = 0;
std::atomic<int> most_noted = 0;

const char* name_of(int signal) {
  return signal == SIGINT    ? "SIGINT"
         : signal == SIGTERM ? "SIGTERM"
         : signal == SIGHUP  ? "SIGHUP"
                             : "a signal";
}

/// One write(), so that lines of several processes do not mix.
void say(int signal) {
  if (*kept.load() == '\0') return;
  std::array<char, 2048> line{};
  std::size_t size = 0;
  for (const char* part : {"trainyard: interrupted (", name_of(signal), "); ", kept.load(), "\n"}) {
    const std::size_t length = std::min(std::strlen(part), line.size() - 1 - size);
    std::memcpy(line.data() + size, part, length);
    size += length;
  }
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), size);
}

extern "C" void on_signal(int signal) {
  if (num_noted < most_noted) {
    int none = 0;
    noted.compare_exchange_strong(none, signal);
    ++num_noted;
    return;
  }
  remove_drafts();
  say(signal);
  _exit(128 + signal);
}

}  // namespace

sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kSignals) sigaddset(&set, signal);
  return set;
}

void end_on_signals() {
  ends_process = true;
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_mask = ending_signals();
  action.sa_flags = SA_RESTART;
  for (const int signal : kSignals) {
    struct sigaction before = {};
    sigaction(signal, nullptr, &before);
    // A shell's background jobs begin with SIGINT ignored, and are to end by it all the same where
    // somebody sends it.
    if (signal == SIGHUP && before.sa_handler == SIG_IGN) continue;
    sigaction(signal, &action, nullptr);
  }
  const sigset_t set = ending_signals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void keeps(const std::string& what) {
  // Never freed: a handler may still read what was said before.
  static auto& all = *new std::deque<std::string>;
  kept = all.emplace_back(plain_text(what)).c_str();
}

int ended_by_signal(int signal) {
  std::fflush(stderr);
  say(signal);
  return 128 + signal;
}

void end_by_signal(int signal) {
  if (!ends_process) {
    ::signal(signal, SIG_DFL);
    raise(signal);
  }
  most_noted = 0;
  on_signal(signal);
  _exit(128 + signal);
}

HeldSignals::HeldSignals() {
  const sigset_t set = ending_signals();
  pthread_sigmask(SIG_BLOCK, &set, &before_);
}

HeldSignals::~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

NotedSignals::NotedSignals(int most) {
  noted = 0;
  num_noted = 0;
  most_noted = most;
}

NotedSignals::~NotedSignals() { most_noted = 0; }

int noted_so_far() { return most_noted > 0 ? static_cast<int>(noted) : 0; }

int NotedSignals::first() const { return noted; }
int NotedSignals::count() const { return num_noted; }

}  // namespace trainyard
