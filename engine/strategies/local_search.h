// Cheaper choices within a budget, from one that is within it.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "engine/strategies/strategy_problem.h"

namespace trainyard {

class LocalSearch {
 public:
  explicit LocalSearch(const StrategyProblem& problem);

  /// Changes `choice`, which is within the budget, as long as it gets cheaper and stays within: one
  /// node, two that an edge joins, or two of which one frees the memory that the other takes.
  void improve(Choice& choice) const;

  /// Takes over from `other`, group by group, where the two choices differ: groups that no edge
  /// joins change the cost each by itself. The cheapest per unit of memory first, while they fit.
  void take_over(Choice& choice, const Choice& other) const;

 private:
  double change(const Choice& choice, std::size_t node, std::size_t strategy,
                std::size_t without) const;
  double memory(std::size_t node, std::size_t strategy) const {
    return problem_.nodes[node].memory[strategy];
  }
  double between(std::size_t edge, std::size_t of_from, std::size_t of_to) const {
    const StrategyEdge& e = problem_.edges[edge];
    return e.cost[of_from * problem_.nodes[e.to].size() + of_to];
  }
  /// Where a search stands. Of an edge, the least memory with which its two nodes get cheaper, as
  /// long as neither these nor their neighbours change: few of the pairs that were looked at once
  /// have to be again.
  struct State {
    Choice& choice;
    double left = 0;                 // of the budget
    std::vector<double> pair_needs;  // [edge] kNotKnown: it has to be looked at
  };
  static constexpr double kNotKnown = -std::numeric_limits<double>::infinity();
  void put(State& state, std::size_t node, std::size_t strategy) const;
  bool improve_nodes(State& state) const;
  bool improve_pairs(State& state) const;
  bool exchange(State& state) const;

  const StrategyProblem& problem_;
  std::vector<std::vector<std::size_t>> edges_;  // [node]
};

}  // namespace trainyard
