// Flows on links: alone a flow takes a known time, and only where it meets another do rates say how
// they share (fair_links.h).
//
// A flow that has all its links to itself keeps the time it takes alone, and no rate is needed for
// it. The moment another one wants one of its links, both (the first with what is left of it) share
// them. Exact, since max-min rates of flows that share nothing, directly or through others, do not
// depend on each other.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <vector>

#include "engine/base/indexed.h"
#include "sim/shared_links.h"

namespace trainyard {

struct Flow {
  Seconds latency = 0;  // before its transfer begins
  double work = 0;      // of the transfer; 0: it is over with the latency
  Seconds alone = 0;    // the transfer, nobody else on its links
  std::vector<SharedLinkUse> links;
  std::int32_t pace =
      -1;  // that it is held to where links alone would let it be faster; -1: they would not
};

class FlowNetwork {
 public:
  struct Ended {
    std::uint64_t cookie;
    Seconds end;
  };

  /// [link]: capacity; [pace]: work per second. `everything_shared`: SimGrid times every flow,
  /// alone or not (slow, equal): shared_links.h.
  FlowNetwork(std::vector<double> capacities, std::vector<double> paces, bool everything_shared);

  /// Calls `body`, from inside which alone the other functions may be called. Once per object.
  void run(const std::function<void()>& body);

  /// `flow` must live until it has ended. `at`: not before the latest instant that next() has come
  /// to. `cookie` comes back when the flow ends; its upper half is what slow() calls it by.
  void start(const Flow& flow, Seconds at, std::uint64_t cookie);

  /// From now on all flows whose cookie begins with `call`, those to come too, progress at 1/factor
  /// of their rate, and keep their share of the links.
  void slow(std::uint32_t call, double factor);

  /// Appends the flows that end next, all at one instant; none, if that is later than `until`, and
  /// time has come to `until` then. Something must be under way.
  void next(std::vector<Ended>& ended, Seconds until);

  Seconds now() const { return now_; }
  std::int64_t num_events() const { return num_events_; }

  /// Seconds so far in which several messages were on the link at once.
  Seconds shared(std::int32_t link) const;

 private:
  struct Event {
    Seconds time;
    std::uint64_t order;  // of events at the same time: as they were made
    std::int32_t slot;
    std::uint32_t version;
    bool operator<(const Event& other) const {  // the earliest on top of a priority queue
      return time != other.time ? time > other.time : order > other.order;
    }
  };
  enum class State : std::uint8_t { kNone, kLatency, kAlone, kShared };
  struct Active {
    const Flow* flow = nullptr;
    std::uint64_t cookie = 0;
    Seconds begin = 0;  // of the transfer, or of the pace it goes at
    Seconds left = 0;   // of the latency or of the transfer, at `begin`, at full pace and alone
    double factor = 1;  // by which it is slowed
    std::uint32_t version = 0;  // events of other versions are void
    State state = State::kNone;
  };
  struct Link {
    std::vector<std::int32_t> users;
    std::int64_t messages = 0;  // that they stand for
    Seconds shared = 0, shared_since = 0;
  };

  double factor(std::uint64_t cookie) const;
  void push(Seconds time, std::int32_t slot);
  void begin(std::int32_t slot);
  void share(std::int32_t slot, double work);
  void catch_up();
  void end(std::int32_t slot, std::vector<Ended>& ended);
  void drop_void_events();

  std::vector<double> capacities_, paces_;
  bool everything_shared_;
  std::unique_ptr<SharedLinks> sharing_;
  std::priority_queue<Event> events_;
  Indexed<std::int32_t, Active> active_;  // [slot]
  std::vector<std::int32_t> free_slots_;
  Indexed<std::int32_t, Link> links_;
  std::vector<std::int32_t> ended_slots_;
  std::vector<double> slowed_;  // by call
  Seconds now_ = 0;
  std::uint64_t num_made_ = 0;
  std::int64_t num_events_ = 0;
};

}  // namespace trainyard
