// Stage-aware recomputation with every share that stage 0 may keep, which rotor's choice is held
// against.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/prepare.h"
#include "app/rotor_ladder.h"
#include "engine/base/units.h"
#include "engine/passes/compile.h"
#include "engine/program/program.h"

namespace trainyard {

struct RotorShare {
  double first = 0;       // that stage 0 keeps
  Seconds predicted = 0;  // as those of rungs
  Bytes peak = 0;         // of the rank that needs most; 0: not compiled
  Seconds step = 0;       // simulated; 0: not
};

class RotorShares {
 public:
  /// All outlive it; `compiler` is one of recomputations. There are none without a pipeline, nor
  /// where the order of microbatches is still to be searched.
  RotorShares(const Prepared& prepared, const Study& study, Compiler& compiler,
              const RotorLadder& ladder);

  /// The number of the largest share that keeps the budget (search_recompute.h); -1: none does.
  int largest_within(Bytes budget);
  RotorShare& share(int n) { return shares_[n]; }

  RecomputeConfig recompute(const RotorShare& share) const;
  /// Makes its Program, which lives until the compiler makes the next one, and its peak.
  const Program& compile_share(RotorShare& share);

 private:
  void find_shares(const RotorLadder& ladder);

  const Prepared& prepared_;
  const Study& study_;
  Compiler& compiler_;
  std::vector<RotorShare> shares_;  // ascending
};

}  // namespace trainyard
