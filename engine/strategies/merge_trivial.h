// A smaller problem with the same optimum: nodes whose memory does not depend on their strategy go
// into their neighbours.
#pragma once

#include <vector>

#include "engine/strategies/strategy_problem.h"

namespace trainyard {

/// Merged are nodes with one strategy, and nodes whose strategies all take the same memory and that
/// have two neighbours or fewer: elementwise ops, views. The best strategy of such a node is known
/// for every choice of its neighbours', so that cost goes into theirs. Edges between the same nodes
/// are one.
class MergedProblem {
 public:
  explicit MergedProblem(const StrategyProblem& problem);

  const StrategyProblem& problem() const { return merged_; }
  std::size_t num_merged() const { return steps_.size(); }
  double cost() const { return cost_; }  // of what has no neighbour left

  /// The choice for the whole problem that goes with one for the smaller.
  Choice whole(const Choice& choice) const;

 private:
  /// A merged node: its strategy by those of up to two neighbours, one row behind the other.
  struct Step {
    std::size_t node = 0;
    std::vector<std::size_t> neighbours;
    std::size_t width = 1;  // strategies of the last neighbour
    std::vector<std::size_t> best;
  };
  StrategyProblem merged_;
  std::vector<std::size_t> number_;  // [node of merged_] node of the whole
  std::vector<Step> steps_;          // in the order of merging
  double cost_ = 0;
};

}  // namespace trainyard
