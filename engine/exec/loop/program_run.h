// Runs a Program's steps on simulated time: when every op is ready, starts and ends (program rules
// 1 and 2). The one loop of all executors that do not run real kernels; what they differ in is how
// long communication takes that meets other communication, which is the Interconnect's matter.
//
// Each stream of each rank goes on by itself until an item waits for a mark that is not reached, or
// for the other members of its collective. No event queue is needed for what takes a known time.
// What goes over the interconnect starts at a known time and ends when that says so; since every
// stream then waits, directly or not, for a message that is under way, the interconnect may always
// go to the earliest of its endings.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/exec/executor.h"
#include "engine/exec/loop/run_plan.h"

namespace trainyard {

/// What times messages that may meet others.
class Interconnect {
 public:
  struct Ending {
    std::int32_t call = -1;  // as given to start()
    std::int64_t rank = -1;  // whose part has ended; -1: everybody's
    Seconds end = 0;
  };
  virtual ~Interconnect() = default;

  /// All members of `channel` are ready for `message` at `at`. Not in order of time.
  virtual void start(std::int32_t call, ChannelId channel, MessageId message, Seconds at) = 0;

  /// Appends what ends next, unless that is later than `until`. Something is under way.
  virtual void next(std::vector<Ending>& endings, Seconds until) = 0;

  /// From the instant that next() has come to on, what is left of `call` takes `factor` times as
  /// long as alone.
  virtual void slow(std::int32_t call, double factor) = 0;

  /// A step has been completed by all ranks.
  virtual void end_step() {}
};

struct RunResult {
  Trace trace;
  std::vector<std::int64_t> sent;  // by MessageTimes::index(): messages of the last step
};

/// `interconnect` may be null where nothing contends.
RunResult run_plan(const RunPlan& plan, const RunOptions& options, Seconds start,
                   Interconnect* interconnect);

}  // namespace trainyard
