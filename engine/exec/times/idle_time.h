// The idle time of one rank: hands what happened in a step to time_classes.h in its order, once
// everything issued before is known. Streams tp and host have an instant before all others, so they
// are asked first.
#pragma once

#include <string>
#include <vector>

#include "engine/exec/times/time_classes.h"

namespace trainyard {

struct StepAccount;

class IdleTime {
 public:
  explicit IdleTime(std::size_t num_kinds = 0)
      : against_tensor_(num_kinds),
        against_others_(num_kinds) {}

  /// Adds the idle time of a step to `into`. `kinds`: names of communication, by TimedEvent::kind.
  void settle(StepAccount& account, const std::vector<std::string>& kinds, TimeClasses& into);

  /// After its last op on main, at `main_end`, a rank waits `rest` for its own communication and
  /// the slowest rank; where `rest` is negative (a rank that is still catching up), idle time from
  /// before the period is cut.
  void settle_rest(Seconds main_end, Seconds rest, const std::vector<std::string>& kinds,
                   TimeClasses& into);

 private:
  GapClassifier against_tensor_, against_others_;
};

}  // namespace trainyard
