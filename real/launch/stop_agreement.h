// After which step all ranks of a run stop, when one of them, or who started them, was told to end.
//
// Ranks are not in step: one may have begun the next step, which the others must then run too. So
// every rank first says, from a thread of its own, which step it is in and that it will begin no
// other before it knows more; rank 0 then names the latest of these. Steps cost nothing for that:
// two atomics each, no message.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "real/comm/rendezvous.h"
#include "system/interrupt.h"

namespace trainyard {

// Keys of the run's store.
inline constexpr const char* kStopReady = "stop/ready";  // set when all ranks listen
inline constexpr const char* kStopAsked = "stop/asked";  // the signal
inline constexpr const char* kStopKept = "stop/kept";    // what the run says it keeps

class StopAgreement {
 public:
  /// `rendezvous` must be this object's own connection. `step`: the last one that is done.
  /// `own_signals`: where nobody started this rank who would be told instead, its own first SIGINT
  /// or SIGTERM asks all ranks to stop.
  StopAgreement(Rendezvous& rendezvous, std::int64_t rank, std::int64_t ranks, std::int64_t step,
                bool own_signals);
  ~StopAgreement();
  StopAgreement(const StopAgreement&) = delete;
  StopAgreement& operator=(const StopAgreement&) = delete;

  /// Called before each step, with its number: whether the run stops before it. Throws BackendError
  /// where the ranks cannot agree.
  bool stops_before(std::int64_t step);
  /// That was asked for; 0: none.
  int signal() const { return signal_; }

 private:
  void run();
  void agree();
  std::string wait_for(const std::string& key);

  Rendezvous& rendezvous_;
  std::int64_t rank_, ranks_;
  std::optional<NotedSignals> own_signals_;
  std::atomic<std::int64_t> running_;  // the step that is running, or comes next
  std::atomic<int> signal_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::optional<std::int64_t> last_;  // step
  std::string failure_;
  std::thread thread_;
};

}  // namespace trainyard
