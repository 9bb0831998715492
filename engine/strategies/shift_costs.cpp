#include "engine/strategies/shift_costs.h"

#include <algorithm>
#include <limits>

namespace trainyard {

namespace {

void shift(StrategyEdge& edge, std::vector<double>& from, std::vector<double>& to) {
  const std::size_t rows = from.size(), columns = to.size();
  std::vector<double> of_from(rows, std::numeric_limits<double>::infinity());
  std::vector<double> of_to(columns, std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      double& cost = edge.cost[i * columns + j];
      cost += from[i] + to[j];
      of_from[i] = std::min(of_from[i], cost);
      of_to[j] = std::min(of_to[j], cost);
    }
  }
  for (std::size_t i = 0; i < rows; ++i) from[i] = of_from[i] / 2;
  for (std::size_t j = 0; j < columns; ++j) to[j] = of_to[j] / 2;
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) edge.cost[i * columns + j] -= from[i] + to[j];
  }
}

}  // namespace

StrategyProblem shift_costs(const StrategyProblem& problem, double price, int sweeps) {
  StrategyProblem out = problem;
  const auto add_memory = [&](double sign) {
    for (StrategyNode& node : out.nodes) {
      for (std::size_t k = 0; k < node.size(); ++k) node.cost[k] += sign * price * node.memory[k];
    }
  };
  add_memory(1);
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    for (StrategyEdge& edge : out.edges)
      shift(edge, out.nodes[edge.from].cost, out.nodes[edge.to].cost);
  }
  add_memory(-1);
  return out;
}

}  // namespace trainyard
