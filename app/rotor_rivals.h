// What studies can say of recomputation in a word, which rotor's choice is held against.
#pragma once

#include <string>
#include <vector>

#include "app/prepare.h"
#include "engine/base/units.h"
#include "engine/passes/compile.h"
#include "engine/program/program.h"

namespace trainyard {

struct RotorRival {
  RecomputeConfig recompute;
  std::string name;  // "full, every layer from its input"
  Bytes peak = 0;    // of the rank that needs most
  Seconds step = 0;  // simulated_step() of analytic_step.h; 0: not within the budget, or too slow
};

/// Methods selective (where attention has `cores` that it keeps), by-op, full (every layer, or one
/// of 2 to 4, as far as they fit); those of which `study` has a Program.
class RotorRivals {
 public:
  /// All outlive it; `compiler` is one of recomputations.
  RotorRivals(const Prepared& prepared, const Study& study, Compiler& compiler, bool cores);

  /// Steps of those alone that are below `enough`.
  std::vector<RotorRival> within(Bytes budget, Seconds enough);

 private:
  void add_more(Bytes budget, Seconds enough);
  /// Whether it fits.
  bool add(const RecomputeConfig& recompute, const std::string& name, Bytes budget, Seconds enough);

  const Prepared& prepared_;
  const Study& study_;
  Compiler& compiler_;
  bool cores_;
  int every_ = 0;                   // of full recomputation, up to which they are there
  std::vector<RotorRival> rivals_;  // whatever the budget
};

}  // namespace trainyard
