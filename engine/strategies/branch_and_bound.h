// The cheapest choice within a budget by trying them, but for what a bound rules out.
#pragma once

#include <cstdint>

#include "engine/strategies/elimination.h"
#include "engine/strategies/strategy_problem.h"

namespace trainyard {

struct BranchOutcome {
  bool finished = false;  // nothing is left to be tried
  std::int64_t steps = 0;
};

/// Makes `best`, a choice within the budget, the cheapest there is, or the cheapest found in
/// `most_steps`. `tables` have been filled with `price`, and `bound` is what they said. Depth
/// first, against the order of elimination, so that tables say what the rest costs at least;
/// cheapest strategies first.
BranchOutcome branch_and_bound(const StrategyProblem& problem, const Elimination& tables,
                               double price, double bound, std::int64_t most_steps, Choice& best);

}  // namespace trainyard
