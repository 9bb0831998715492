#include "engine/strategies/branch_and_bound.h"

#include <algorithm>

namespace trainyard {

namespace {

constexpr double kRounding = 1e-10;  // of the cost: sums in another order differ by less

class Branches {
 public:
  Branches(const StrategyProblem& problem, const Elimination& tables, double price,
           std::int64_t most_steps, Choice& best)
      : problem_(problem),
        tables_(tables),
        price_(price),
        most_steps_(most_steps),
        best_(best),
        now_(best.size()),
        levels_(best.size()),
        cost_(cost_of(problem, best)) {
    // What the rest takes at least, by how many nodes it has.
    least_.push_back(0);
    for (const std::size_t n : tables.order()) {
      const auto& memory = problem.nodes[n].memory;
      least_.push_back(least_.back() + *std::min_element(memory.begin(), memory.end()));
    }
  }

  BranchOutcome search(double bound) {
    outcome_.finished = true;
    visit(best_.size(), bound, 0);
    return outcome_;
  }

 private:
  struct Level {
    std::vector<double> costs;
    std::vector<std::size_t> by_cost;
  };

  /// `left` nodes have no strategy yet; `bound`: of cost and priced memory, of all.
  void visit(std::size_t left, double bound, double memory) {
    if (left == 0) {
      // The bound is the choice's own; it is summed anew, without the rounding on the way.
      if (memory_of(problem_, now_) > problem_.budget) return;
      const double cost = cost_of(problem_, now_);
      if (cost >= cost_) return;
      cost_ = cost;
      best_ = now_;
      return;
    }
    const std::size_t n = tables_.order()[left - 1];
    Level& level = levels_[left - 1];
    tables_.costs_of(n, now_, level.costs);
    const double rest = bound - tables_.said_of(n, now_);
    level.by_cost.resize(level.costs.size());
    for (std::size_t k = 0; k < level.by_cost.size(); ++k) level.by_cost[k] = k;
    std::sort(level.by_cost.begin(), level.by_cost.end(), [&](std::size_t a, std::size_t b) {
      return level.costs[a] != level.costs[b] ? level.costs[a] < level.costs[b] : a < b;
    });
    for (const std::size_t k : level.by_cost) {
      const double with = rest + level.costs[k];
      if (with - price_ * problem_.budget >= cost_ - kRounding * std::abs(cost_)) return;
      const double held = memory + problem_.nodes[n].memory[k];
      if (held + least_[left - 1] > problem_.budget * (1 + kRounding)) continue;
      if (outcome_.steps == most_steps_) {
        outcome_.finished = false;
        return;
      }
      ++outcome_.steps;
      now_[n] = k;
      visit(left - 1, with, held);
      if (!outcome_.finished) return;
    }
  }

  const StrategyProblem& problem_;
  const Elimination& tables_;
  double price_;
  std::int64_t most_steps_;
  Choice& best_;
  Choice now_;
  std::vector<Level> levels_;
  std::vector<double> least_;
  double cost_;  // of the best
  BranchOutcome outcome_;
};

}  // namespace

BranchOutcome branch_and_bound(const StrategyProblem& problem, const Elimination& tables,
                               double price, double bound, std::int64_t most_steps, Choice& best) {
  return Branches(problem, tables, price, most_steps, best).search(bound);
}

}  // namespace trainyard
