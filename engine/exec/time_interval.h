// The 90 % interval of an iteration time from the profiles' uncertainties: entries are drawn anew,
// the step is timed again, and what the times do is told; then one entry at a time, for what to
// measure next.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/exec/cost_uncertainty.h"

namespace trainyard {

/// What one entry adds.
struct Contribution {
  std::string entry;
  Seconds effect =
      0;  // on the iteration time, if the entry's figure is at the upper end of its 90 % interval
  double share = 0;  // of the squared effects of all that were tried
};

struct TimeInterval {
  Seconds low = 0, high = 0;
  int num_draws = 0;
  std::vector<Contribution>
      next;  // what to measure next: the largest effect first, at most kMostNext
  std::vector<KindTime> kinds;
  static constexpr std::size_t kMostNext = 5;
};

/// So many draws of a Program whose step has so many events: fewer of large ones, 20 to 100.
int draws_for(std::int64_t num_events);

/// `step_time` times a step with other costs; `time` is what it says of `costs`. The same arguments
/// draw the same numbers.
TimeInterval find_time_interval(const Program& program, const CostUncertainty& uncertainty,
                                const Costs& costs, Seconds time, int num_draws,
                                const std::function<Seconds(const Costs&)>& step_time);

}  // namespace trainyard
