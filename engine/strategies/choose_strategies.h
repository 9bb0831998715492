// The cheapest choice of strategies within a memory budget, with a bound on how much cheaper any
// could be.
#pragma once

#include <cstdint>
#include <variant>

#include "engine/base/error.h"
#include "engine/strategies/strategy_problem.h"

namespace trainyard {

struct StrategyOptions {
  std::size_t most_entries = 600'000;   // of one table of the bound (elimination.h)
  double most_work = 2e8;               // entries of all tables times strategies, per price tried
  std::size_t divided_entries = 2'000;  // while a price is looked for, where tables are divided
  int sweeps = 100, rounds = 3;         // of shift_costs() there, and how often it is done
  std::int64_t most_steps = 100'000;    // of branch and bound
  int kicks = 300;                      // of choices by chance, where few nodes have divided tables
  std::size_t few_nodes = 64;           // up to which it may take more:
  std::int64_t most_steps_of_few = 4'000'000;
};

struct ChosenStrategies {
  Choice choice;
  double objective = 0;  // its cost
  double memory = 0;
  double bound = 0;         // no choice within the budget costs less
  std::size_t merged = 0;   // nodes that went into their neighbours
  std::int64_t prices = 0;  // of memory that were tried
  std::int64_t steps = 0;   // of branch and bound
  bool finished = false;    // branch and bound came to its end: the choice is optimal

  /// How far the choice may be above the best, as a share of the bound; 0: it is the best.
  double gap() const;
};

/// Trivial nodes are merged; a price of memory is found with which the bound by elimination is
/// highest; choices on either side of the budget at that price are combined and improved; then
/// branch and bound, nodes against the order of elimination, cheapest first, leaves out what its
/// bound says is no cheaper. Infeasible: the reason has the smallest budget that works.
/// Deterministic: steps end the search, no clock.
std::variant<ChosenStrategies, Infeasible> choose_strategies(const StrategyProblem& problem,
                                                             const StrategyOptions& options = {});

}  // namespace trainyard
