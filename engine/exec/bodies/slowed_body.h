// A body (timed_body.h), or a run of kernels, of a rank whose kernels are slower while it
// communicates: by the body's own collectives, which the body knows, and by messages beside it, of
// which begins and ends become known while it runs. Each time the body is timed again from its
// entry, with all that is known by then: what had ended before ends as it did. That is far less
// work than timing its ops as items.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "engine/exec/bodies/timed_body.h"
#include "engine/exec/channels/message_times.h"
#include "engine/exec/lists/stream_list.h"

namespace trainyard {

/// The ops of a body in an order in which each is timed behind all that it depends on: a collective
/// as early as can be, since kernels that it does not wait for may be issued before it and still
/// run when it begins.
struct SlowedSteps {
  struct Step {
    std::uint32_t op = 0;
    bool collective = false, kernel = false;
    bool waits_for_main = false;                  // a collective: for what main did before it
    std::int32_t waits_for_op = -1;               // else: for this collective
    std::uint32_t first_edge = 0, num_edges = 0;  // in `edges`: ops that it waits for, too
    std::int32_t exposed_kind = -1;
    MessageId message = kNoIndex;
    Seconds duration = 0;
    Seconds launched = 0;  // host time from before the first launch to its own
  };
  std::vector<Step> steps;
  std::vector<std::uint32_t> edges;
  bool as_issued = true;  // the order is that of the ops
  std::uint32_t num_ops = 0;
  std::int64_t num_events = 0;
  Flop flop = 0;
};

/// `ops`: of the body, from its first on. A run is a body without collectives.
SlowedSteps make_slowed_steps(const TimedBody& body, const TimedOp* ops);

class SlowedBody {
 public:
  /// A rank, or ranks that do all alike, comes to a body, or to a run, whose first kernel waits
  /// until `entry.ready`. `factor`: how many times as long a kernel takes beside communication.
  /// `given`: ops of which ends are to be known. `times`, of `channel`: of the collectives, which
  /// nothing slows. What is referred to outlives the body.
  void begin(const SlowedSteps& steps, const BodyEntry& entry, double factor,
             std::span<const GivenMark> given, const MessageTimes& times, ChannelId channel);

  /// From `at` on there are messages under way beside the body, or none. Ascending `at`.
  void beside(Seconds at, bool any);

  /// What it comes to if nothing changes any more; without what only maps need.
  const BodyCourse& course() const { return course_; }
  /// The end of an op that is given, or, for others, of main.
  Seconds end_of(const GivenMark& given) const {
    return given.op < steps_->num_ops ? course_.op_end[given.op] : course_.main;
  }
  /// When all is over.
  Seconds end() const { return std::max(course_.main, course_.other); }
  /// When the next op given ends behind `after`, or main, or the last collective; infinity:
  /// nothing.
  Seconds next_end(Seconds after) const;

 private:
  using Step = SlowedSteps::Step;

  void time();
  void time_collective(const Step& step);
  void time_on_main(const Step& step);
  Seconds behind_edges(const Step& step, Seconds since) const;
  Seconds kernel(Seconds start, Seconds work);

  const SlowedSteps* steps_ = nullptr;
  const MessageTimes* times_ = nullptr;
  ChannelId channel_ = kNoIndex;
  BodyEntry entry_;
  double factor_ = 1;
  std::span<const GivenMark> given_;
  std::vector<std::pair<Seconds, bool>> beside_;  // ascending; messages are under way from there on
  BodyCourse course_;
  // During a pass over the body:
  std::vector<std::pair<Seconds, Seconds>> own_;  // its collectives so far: begin, end
  std::size_t next_beside_ = 0, next_own_ = 0;    // that has not begun; that has not ended
  std::vector<std::uint32_t> event_ops_;          // of course_.events
};

}  // namespace trainyard
