// Max-min fair rates that follow every start and end of a flow, where it matters.
//
// Rates are max-min fair if no link carries more than it can and each flow has a reason why it is
// no faster: it is held to its pace, or it passes a link that is full and is one of the fastest
// there. So what begins or ends is met by solving only for itself first, all others as they are,
// and then for those, too, whose reason is gone; mostly a few flows, whatever hangs together with
// them. Only rates that change move ends. The rates are those of all flows solved together
// (simgrid_links.cpp is held against them).
#pragma once

#include <cstdint>
#include <limits>
#include <queue>
#include <vector>

#include "engine/base/indexed.h"
#include "sim/shared_links.h"

namespace trainyard {

class FairLinks : public SharedLinks {
 public:
  FairLinks(const std::vector<double>& capacities, const std::vector<double>& paces);

  void run(const std::function<void()>& body) override { body(); }
  Seconds now() const override { return now_; }
  void start(std::int32_t flow, double work, std::int32_t pace,
             const std::vector<SharedLinkUse>& links) override;
  void stretch(std::int32_t flow, double factor) override;
  std::size_t num_active() const override { return num_active_; }
  void wait(Seconds until, std::vector<std::int32_t>& ended) override;

 private:
  static constexpr double kAny = std::numeric_limits<double>::infinity();
  struct Flow {
    const std::vector<SharedLinkUse>* links = nullptr;  // null: not active
    double left = 0;                                    // of its work, at `since`
    Seconds since = 0;
    double rate = 0;
    double most = kAny;         // its pace
    std::int32_t holder = -1;   // the full link that says its rate; -1: its pace
    std::uint32_t version = 0;  // events of other versions are void
    bool open = false;          // its rate is being solved for
    bool found = false;         // and is known
    double next = 0;            // that rate
  };
  struct User {
    std::int32_t flow;
    std::int64_t times;
  };
  struct Link {
    double capacity = 0;
    std::vector<User> users;
    std::uint64_t seen = 0;   // the solution that the rest belongs to
    double room = 0;          // of the capacity, for flows whose rate is not known
    std::int64_t weight = 0;  // how often these count
  };
  struct Event {
    Seconds time;
    std::uint64_t order;  // of events at the same time: as they were made
    std::int32_t flow;
    std::uint32_t version;
    bool operator<(const Event& other) const {  // the earliest on top of a priority queue
      return time != other.time ? time > other.time : order > other.order;
    }
  };
  struct Share {
    double rate;
    std::int32_t link;
    bool operator<(const Share& other) const {  // the smallest on top
      return rate != other.rate ? rate > other.rate : link > other.link;
    }
  };

  double rate(const Flow& flow) const { return flow.open ? flow.next : flow.rate; }
  void settle();
  void open(std::int32_t flow);
  void open_neighbours();
  void find_room();
  void fill();
  void fix(Flow& flow, double rate, std::int32_t holder);
  bool open_those_without_reason();
  bool holds(std::int32_t link, const Flow& flow) const;
  bool find_holder(Flow& flow) const;
  void adopt();
  void spend(Flow& flow) const;
  void push(std::int32_t flow);
  void remove(std::int32_t flow);

  Indexed<std::int32_t, double> paces_;
  Indexed<std::int32_t, Flow> flows_;
  Indexed<std::int32_t, Link> links_;
  std::priority_queue<Event> events_;
  std::vector<Share> shares_;          // a heap
  std::vector<std::int32_t> fresh_;    // flows that have begun since the last solution
  std::vector<std::int32_t> freed_;    // links that a flow has left since
  std::vector<std::int32_t> open_;     // flows that are solved for
  std::vector<std::int32_t> touched_;  // links that they pass
  std::vector<std::int32_t> paced_;    // of open_, the slowest pace last
  std::size_t num_active_ = 0;
  std::uint64_t num_solved_ = 0, num_made_ = 0;
  Seconds now_ = 0;
};

}  // namespace trainyard
