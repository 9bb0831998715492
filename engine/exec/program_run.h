// Runs a Program's steps on simulated time: when every op is ready, starts and ends (program rules 1
// and 2). The one loop of all executors that do not run real kernels; what they differ in is how long
// communication takes that meets other communication, which is the Interconnect's matter.
//
// Each stream of each rank goes on by itself until an item waits for a mark that is not reached, or for
// the other members of its collective. No event queue is needed for what takes a known time. What goes
// over the interconnect starts at a known time and ends when that says so; since every stream then
// waits, directly or not, for a message that is under way, the interconnect may always go to the
// earliest of its endings.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <vector>

#include "engine/exec/executor.h"
#include "engine/exec/fold.h"
#include "engine/exec/message_times.h"
#include "engine/exec/stream_list.h"

namespace trainyard {

/// What times messages that may meet others.
class Interconnect {
 public:
  struct Ending {
    std::int32_t call = -1;    // as given to start()
    std::int64_t rank = -1;    // whose part has ended; -1: everybody's
    Seconds end = 0;
  };
  virtual ~Interconnect() = default;

  /// All members of `channel` are ready for `message` at `at`. Not in order of time.
  virtual void start(std::int32_t call, ChannelId channel, std::int32_t message, Seconds at) = 0;

  /// Appends what ends next, unless that is later than `until`. Something is under way.
  virtual void next(std::vector<Ending>& endings, Seconds until) = 0;

  /// From the instant that next() has come to on, what is left of `call` takes `factor` times as long as alone.
  virtual void slow(std::int32_t call, double factor) = 0;

  /// A step has been completed by all ranks.
  virtual void end_step() {}
};

/// A Program prepared for one run: its fold classes and the queues of their streams.
struct RunPlan {
  const Program* program = nullptr;
  Lanes lanes;
  Folds folds;
  MessageTimes times;
  std::deque<StreamList> lists;       // never moved: items point into them
  struct ListKey {
    std::size_t list = 0;             // index into Program::body
    double speed = 1;
    bool records = false;
    std::uint64_t lanes = 0;          // that bodies may be made of
    friend auto operator<=>(const ListKey&, const ListKey&) = default;
  };
  std::vector<ListKey> list_keys;     // [list]
  std::vector<std::size_t> list_of;   // [fold class]: index into lists
  std::vector<bool> records;          // [fold class]: rows are kept
  std::vector<bool> contends;         // [channel]: over the interconnect; empty: none
  Slowdown slowdown;                  // any(): every op is an item, timed in order (slowdown_clock.h)
};

/// `network`: distinguish ranks and channels by what they share; null: by closed forms alone.
/// Bodies are not reused yet where `contends` says that their group meets others: make_lists() again
/// after changing it.
RunPlan make_run_plan(const Program& program, const Costs& costs, const RunOptions& options, const Network* network);

void make_lists(RunPlan& plan, const Costs& costs, const RunOptions& options);

struct RunResult {
  Trace trace;
  std::vector<std::int64_t> sent;  // by MessageTimes::index(): messages of the last step
};

/// `interconnect` may be null where nothing contends.
RunResult run_plan(const RunPlan& plan, const RunOptions& options, Seconds start, Interconnect* interconnect);

}  // namespace trainyard
