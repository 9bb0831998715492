#include "engine/strategies/strategy_problem.h"

#include <algorithm>

namespace trainyard {

double cost_of(const StrategyProblem& problem, const Choice& choice) {
  double sum = 0;
  for (std::size_t n = 0; n < choice.size(); ++n) sum += problem.nodes[n].cost[choice[n]];
  for (const StrategyEdge& edge : problem.edges)
    sum += edge.cost[choice[edge.from] * problem.nodes[edge.to].size() + choice[edge.to]];
  return sum;
}

double memory_of(const StrategyProblem& problem, const Choice& choice) {
  double sum = 0;
  for (std::size_t n = 0; n < choice.size(); ++n) sum += problem.nodes[n].memory[choice[n]];
  return sum;
}

double least_memory(const StrategyProblem& problem) {
  double sum = 0;
  for (const StrategyNode& node : problem.nodes)
    sum += *std::min_element(node.memory.begin(), node.memory.end());
  return sum;
}

std::vector<std::vector<std::size_t>> edges_of_nodes(const StrategyProblem& problem) {
  std::vector<std::vector<std::size_t>> out(problem.nodes.size());
  for (std::size_t e = 0; e < problem.edges.size(); ++e) {
    out[problem.edges[e].from].push_back(e);
    out[problem.edges[e].to].push_back(e);
  }
  return out;
}

}  // namespace trainyard
