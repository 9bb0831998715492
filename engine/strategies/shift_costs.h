// The same costs, divided otherwise between nodes and edges.
#pragma once

#include "engine/strategies/strategy_problem.h"

namespace trainyard {

/// A problem in which every choice costs what it does in `problem`. Each edge in turn takes the
/// costs of its nodes, memory at `price` included, and gives each half of the least that every
/// strategy of it comes to (MPLP: Globerson and Jaakkola, NIPS 2007): the sum of the least of every
/// node and every edge, a bound, only rises. What divides tables (elimination.h) bounds better from
/// there.
StrategyProblem shift_costs(const StrategyProblem& problem, double price, int sweeps);

}  // namespace trainyard
