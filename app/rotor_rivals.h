// What studies can say of recomputation in a word, which rotor's choice is held against.
#pragma once

#include <string>
#include <vector>

#include "app/prepare.h"
#include "engine/base/units.h"

namespace trainyard {

struct RotorRival {
  RecomputeConfig recompute;
  std::string name;  // "full, every layer from its input"
  Bytes peak = 0;    // of the rank that needs most
  Seconds step = 0;  // where it is within the budget: simulated_step() of analytic_step.h
};

/// Methods selective (where attention has `cores` that it keeps), full (every layer, or one of 2 to
/// 4), and stage-aware with what the budget has room for; those of which `study` has a Program.
std::vector<RotorRival> rotor_rivals(const Prepared& prepared, const Study& study, Bytes budget,
                                     bool cores);

}  // namespace trainyard
