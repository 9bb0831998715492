// What Ctrl-C and kill do to a command.
//
// SIGINT, SIGTERM and SIGHUP end it with 128 + the signal's number (130, 143, 129), after one line
// on stderr that says what is kept. A command that has something to finish first notes the first
// signal (NotedSignals); a second one ends it at once.
#pragma once

#include <signal.h>

#include <string>

namespace trainyard {

/// From now on signals end this process so. Those that program starters ignore, as nohup does
/// SIGHUP, stay ignored.
void end_on_signals();

/// SIGINT, SIGTERM, SIGHUP.
sigset_t ending_signals();

/// What the line says from now on is kept: "nothing was written", unless a command says other. "":
/// no line, where another process says it.
void keeps(const std::string& what);

/// Ends this process as `signal` would now. Where end_on_signals() was never called (in a test), as
/// the system would.
[[noreturn]] void end_by_signal(int signal);

/// 128 + `signal`, after the line: for the end of a command that came to one by itself.
int ended_by_signal(int signal);

/// While it lives signals wait: for what is done whole or not at all, and while one program becomes
/// the other.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

 private:
  sigset_t before_{};
};

/// While it lives the first signal is noted (the first `most`), and the next one ends the process.
/// One at a time.
class NotedSignals {
 public:
  explicit NotedSignals(int most = 1);
  ~NotedSignals();
  NotedSignals(const NotedSignals&) = delete;
  NotedSignals& operator=(const NotedSignals&) = delete;

  int first() const;  // 0: none has come
  int count() const;  // of those noted
};

/// What the NotedSignals that lives has noted first; 0: nothing, or none lives.
int noted_so_far();

}  // namespace trainyard
