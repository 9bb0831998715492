// Strategy problems by a seed: a chain of nodes with skips, or any graph.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/strategies/strategy_problem.h"

namespace trainyard {

struct StrategyShape {
  std::size_t nodes = 500;
  std::size_t strategies = 12;
  std::size_t edges = 648;    // those of the chain, nodes - 1, and skips; each pair of nodes once
  std::size_t most_span = 4;  // of a skip, 2 at least; nodes: any two may be joined
  double memory_share = 0.7;  // the budget, of what the cheapest choice that ignores memory takes
  bool sharded = false;       // else costs and memory are drawn from 0 to 1, each by itself
};

/// sharded: strategy k of a node shards it over d of 8 devices; compute and memory go with 1/d but
/// for a rest, communication with log d, and an edge costs nothing between strategies that shard
/// alike.
StrategyProblem random_strategies(const StrategyShape& shape, std::uint64_t seed);

}  // namespace trainyard
