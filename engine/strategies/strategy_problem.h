// One strategy for each node of a graph, so that all fit a memory budget: what MAP solves for the
// shardings of ops.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

namespace trainyard {

struct StrategyNode {
  std::vector<double> cost;    // [strategy] any unit of time
  std::vector<double> memory;  // [strategy] any unit, >= 0
  std::size_t size() const { return cost.size(); }
};

/// What it costs to hand a value from one node, under its strategy, to another under its own.
struct StrategyEdge {
  std::size_t from = 0, to = 0;
  std::vector<double> cost;  // [strategy of from][strategy of to], one row behind the other
};

struct StrategyProblem {
  std::vector<StrategyNode> nodes;  // each with a strategy at least
  std::vector<StrategyEdge> edges;  // several between two nodes add up; none from a node to itself
  double budget = std::numeric_limits<double>::infinity();  // of the sum of all nodes' memory
};

using Choice = std::vector<std::size_t>;  // [node] strategy

double cost_of(const StrategyProblem& problem, const Choice& choice);
double memory_of(const StrategyProblem& problem, const Choice& choice);

/// The smallest budget with which there is a choice.
double least_memory(const StrategyProblem& problem);

/// [node] the edges at it.
std::vector<std::vector<std::size_t>> edges_of_nodes(const StrategyProblem& problem);

}  // namespace trainyard
