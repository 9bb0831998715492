// Flows that share links: max-min fair rates, where a flow that passes a link k times counts there
// k times. Times are relative to when the object was made.
//
// FairLinks (fair_links.h) follows what changes. SimGrid (simgrid_links.cpp) knows nothing of it,
// and answers where a run is to be checked (--no-reuse). It is loaded when its first object is
// made, because it brings so many libraries along that loading them takes as long as a simulation
// without contention.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engine/base/units.h"

namespace trainyard {

struct SharedLinkUse {
  std::int32_t link = 0;
  std::int64_t times = 1;
  std::int64_t messages = 1;  // that the flow stands for on one such link
};

class SharedLinks {
 public:
  virtual ~SharedLinks() = default;

  /// Runs `body` with the simulated clock at 0; the other functions may only be called from inside
  /// it. An exception that leaves `body` leaves run().
  virtual void run(const std::function<void()>& body) = 0;

  virtual Seconds now() const = 0;

  /// Starts a flow at this instant, held to paces[pace] (-1: to none). `work` > 0; at least one
  /// link, each named once; `links` must live until the flow has ended.
  virtual void start(std::int32_t flow, double work, std::int32_t pace,
                     const std::vector<SharedLinkUse>& links) = 0;

  /// What is left of an active flow becomes `factor` times as much.
  virtual void stretch(std::int32_t flow, double factor) = 0;

  virtual std::size_t num_active() const = 0;

  /// Lets time pass until `until` or until a flow ends, whichever is first, and appends what has
  /// ended.
  virtual void wait(Seconds until, std::vector<std::int32_t>& ended) = 0;
};

/// SimGrid's. `capacities` of the links, and `paces` that flows can be held to each by itself, in
/// units of work per second. At most one object lives at a time, because a process has one
/// s4u::Engine. Throws BackendError where the module with SimGrid cannot be loaded.
std::unique_ptr<SharedLinks> make_shared_links(const std::vector<double>& capacities,
                                               const std::vector<double>& paces);

}  // namespace trainyard
