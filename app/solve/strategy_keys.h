// Strategy problems in problems of `solve`.
#pragma once

#include "app/solve/named_nodes.h"
#include "engine/strategies/strategy_problem.h"

namespace trainyard {

struct WrittenStrategies {
  NamedNodes names;
  StrategyProblem problem;
};

/// `nodes: [{name, costs: [...], memory: [...]}]`, `edges: [{from, to, cost: [[...]]}]` and
/// `memory_budget`. What else nodes say is left to the caller, who finishes them.
WrittenStrategies read_strategies(const YamlNode& problem);

}  // namespace trainyard
