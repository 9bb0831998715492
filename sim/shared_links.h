// Flows that share links, on SimGrid: max-min fair rates, where a flow that passes a link k times counts
// there k times. Only this file's .cpp knows SimGrid; times are relative to when the object was made.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engine/base/units.h"

namespace trainyard {

struct SharedLinkUse {
  std::int32_t link = 0;
  std::int64_t times = 1;
};

class SharedLinks {
 public:
  /// [link]: capacity, in units of work per second. At most one object lives at a time, because a process
  /// has one s4u::Engine.
  explicit SharedLinks(const std::vector<double>& capacities);
  ~SharedLinks();
  SharedLinks(const SharedLinks&) = delete;
  SharedLinks& operator=(const SharedLinks&) = delete;

  /// Runs `body` with the simulated clock at 0; the other functions may only be called from inside it. An
  /// exception that leaves `body` leaves run().
  void run(const std::function<void()>& body);

  Seconds now() const;

  /// Starts a flow at this instant. `work` > 0; at least one link.
  void start(std::int32_t flow, double work, const std::vector<SharedLinkUse>& links);

  std::size_t num_active() const;

  /// Lets time pass until `until` or until a flow ends, whichever is first, and appends what has ended.
  void wait(Seconds until, std::vector<std::int32_t>& ended);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trainyard
