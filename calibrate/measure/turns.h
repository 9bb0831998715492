// Whose turn it is to be measured: the sets (numbers of processes at work) take turns, so that a
// machine whose speed drifts over minutes is met by all of them alike.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "calibrate/result/calibration.h"

namespace trainyard {

struct Turn {
  std::int64_t ranks = 1;
  Seconds seconds = 0;
};

class Turns {
 public:
  /// `seconds`: of all sets together, equally many of each.
  Turns(std::vector<std::int64_t> sizes, Seconds seconds);

  /// The set that has had least of its time, for a quarter of that; nullopt: each has had it, or
  /// finds nothing more that is worth timing. Ties: fewer processes first. Every set has at least
  /// one turn.
  std::optional<Turn> next(Calibration& calibration);

 private:
  std::vector<std::int64_t> sizes_;
  Seconds each_;
  std::map<std::int64_t, Seconds> before_;  // at work, or kept from it by load, at its last turn
};

}  // namespace trainyard
