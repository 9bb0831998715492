// Ops that slow each other (program rule 2): while a rank communicates, its kernels progress at
// 1/factor, and the other way round. Rates are piecewise constant and change only where an op
// begins or ends, so ends are exact. Copies between device, host and drives, which engines of their
// own make, slow nothing and are not slowed.
//
// What an op that has begun will take depends on what begins beside it later, so here, unlike in
// the loop without slow-down, everything goes in order of time: kernels and messages are under way,
// and the earliest ending is known only when everything before it has happened.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

#include "engine/cost/hardware_profile.h"
#include "engine/exec/bodies/slowed_body.h"
#include "engine/exec/loop/program_run.h"

namespace trainyard {

class SlowdownClock : public Interconnect {
 public:
  /// `network`: what times messages on channels that contend; may be null where none does. All
  /// arguments must outlive the object.
  SlowdownClock(const RunPlan& plan, Interconnect* network);

  void start(std::int32_t call, ChannelId channel, MessageId message, Seconds at) override;

  /// A kernel of fold class `rank` that takes `work` alone.
  void start_kernel(std::int32_t call, FoldClassId rank, Seconds work, Seconds at);

  /// For a body or run that start_body() is to start.
  SlowedBody& new_body(std::int32_t call);
  /// The main stream of fold class `rank` comes to the body at `at`. next() says when main or the
  /// last collective is over, or an op given.
  void start_body(std::int32_t call, FoldClassId rank, Seconds at);
  /// The body, as far as next() has come.
  const SlowedBody& body(std::int32_t call) const { return activities_[call].body; }

  void next(std::vector<Ending>& endings, Seconds until) override;
  void slow(std::int32_t call, double factor) override;
  void end_step() override;

 private:
  struct Activity {
    bool kernel = false;
    bool in_network = false;  // the network says when it ends
    bool running = false;
    std::vector<FoldClassId> ranks;  // that take part and have not ended
    Seconds left = 0, since = 0;     // seconds alone, left at the instant `since`; of a body: all
                                     // that ends by then is known
    double factor = 1;
    std::uint32_t version = 0;  // events of other versions are void
    bool by_engines = false;    // a copy, which takes nothing from kernels
    bool is_body = false;
    SlowedBody body;
  };
  struct RankOps {
    std::vector<std::int32_t> kernels, messages;  // that run now: calls
  };
  struct Event {
    Seconds time;
    std::uint64_t order;  // of events at the same time: as they were made
    std::int32_t call;
    std::uint32_t version;
    bool operator<(const Event& other) const {  // the earliest on top of a priority queue
      return time != other.time ? time > other.time : order > other.order;
    }
  };

  Activity& make(std::int32_t call);
  void enter(std::int32_t call, Seconds at);
  void push(Seconds time, std::int32_t call);
  void begin(std::int32_t call);
  void leave(std::int32_t call, FoldClassId rank);
  void set_pace(std::int32_t call);
  void set_paces(const std::vector<std::int32_t>& calls);
  void go_on(std::int32_t call);
  void end_part(std::int32_t call);

  const RunPlan& plan_;
  Interconnect* network_;
  Indexed<ChannelId, std::vector<FoldClassId>> members_;  // that meet in it
  Indexed<std::int32_t, Activity> activities_;            // [call]
  Indexed<FoldClassId, RankOps> ranks_;
  std::priority_queue<Event> events_;
  std::vector<Ending> from_network_;
  std::int64_t num_in_network_ = 0;
  std::uint64_t num_made_ = 0;
  Seconds now_ = 0;
};

}  // namespace trainyard
