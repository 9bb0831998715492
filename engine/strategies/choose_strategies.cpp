#include "engine/strategies/choose_strategies.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <set>

#include "engine/base/quantity.h"
#include "engine/strategies/branch_and_bound.h"
#include "engine/strategies/elimination.h"
#include "engine/strategies/local_search.h"
#include "engine/strategies/merge_trivial.h"
#include "engine/strategies/shift_costs.h"

namespace trainyard {

namespace {

constexpr int kMostPrices = 40;
constexpr double kSame = 1e-9;    // of a bound: prices whose bounds differ in less are as good
constexpr double kNear = 1e-3;    // of a price: where tables are divided
constexpr std::size_t kKept = 4;  // choices on either side of the budget, the latest

struct PricedChoice {
  Choice choice;
  double cost = 0, memory = 0;
  double at(double price) const { return cost + price * memory; }
};

/// The price of memory with the highest bound, and choices on either side of the budget.
class PriceSearch {
 public:
  explicit PriceSearch(const StrategyProblem& problem) : problem_(problem) {}

  void run(Elimination& tables) {
    const int before = tried_;
    const auto at = [&](double price) { return try_price(tables, price); };
    PricedChoice over = at(0);
    if (over.memory <= problem_.budget) return;
    // Up to a price at which the budget is kept.
    double low = 0, high = over.cost > 0 ? over.cost / over.memory : 1;
    PricedChoice under = at(high);
    while (under.memory > problem_.budget) {
      if (tried_ - before >= kMostPrices / 2) return;
      over = under;
      low = high;
      high *= 4;
      under = at(high);
    }
    // The price at which both cost the same; if nothing is cheaper there, no price has a higher
    // bound.
    while (tried_ - before < kMostPrices) {
      double price = (under.cost - over.cost) / (over.memory - under.memory);
      if (!(price > low && price < high)) price = (low + high) / 2;
      const double expected = over.at(price);
      const PricedChoice found = at(price);
      if (tables.exact() && found.at(price) >= expected - kSame * std::abs(expected)) return;
      if (high - low <= (tables.exact() ? kSame : kNear) * high) return;
      if (found.memory <= problem_.budget) {
        under = found;
        high = price;
      } else {
        over = found;
        low = price;
      }
    }
  }

  /// `tables`: of the problem, or of one whose choices cost the same.
  PricedChoice try_price(Elimination& tables, double price) {
    ++tried_;
    const double bound = tables.run(price) - price * problem_.budget;
    if (bound > bound_) {
      bound_ = bound;
      price_ = price;
    }
    PricedChoice out;
    out.choice = tables.best();
    out.cost = cost_of(problem_, out.choice);
    out.memory = memory_of(problem_, out.choice);
    auto& kept = out.memory <= problem_.budget ? within_ : beyond_;
    if (kept.size() == kKept) kept.erase(kept.begin());
    kept.push_back(out);
    return out;
  }

  double price() const { return price_; }  // of the highest bound
  double bound() const { return bound_; }
  int tried() const { return tried_; }
  const std::vector<PricedChoice>& within() const { return within_; }
  const std::vector<PricedChoice>& beyond() const { return beyond_; }

 private:
  const StrategyProblem& problem_;
  std::vector<PricedChoice> within_, beyond_;
  double price_ = 0, bound_ = -std::numeric_limits<double>::infinity();
  int tried_ = 0;
};

/// The strategies that take the least memory, of those the cheapest.
Choice smallest_choice(const StrategyProblem& problem) {
  Choice out;
  for (const StrategyNode& node : problem.nodes) {
    std::size_t best = 0;
    for (std::size_t k = 1; k < node.size(); ++k) {
      if (node.memory[k] < node.memory[best] ||
          (node.memory[k] == node.memory[best] && node.cost[k] < node.cost[best]))
        best = k;
    }
    out.push_back(best);
  }
  return out;
}

/// The cheapest that the choices of the price search lead to.
Choice cheapest_nearby(const StrategyProblem& problem, const PriceSearch& found) {
  const LocalSearch local(problem);
  Choice best;
  double least = 0;
  std::set<Choice> known;  // where the search began, or ended
  const auto take = [&](Choice choice) {
    if (!known.insert(choice).second) return;
    local.improve(choice);
    known.insert(choice);
    const double cost = cost_of(problem, choice);
    if (!best.empty() && cost >= least) return;
    least = cost;
    best = std::move(choice);
  };
  std::vector<Choice> starts;
  for (const PricedChoice& within : found.within()) starts.push_back(within.choice);
  if (starts.empty()) starts.push_back(smallest_choice(problem));
  for (const Choice& start : starts) {
    take(start);
    for (const PricedChoice& beyond : found.beyond()) {
      Choice mixed = start;
      local.take_over(mixed, beyond.choice);
      take(std::move(mixed));
    }
  }
  return best;
}

/// Nodes beside each other get strategies by chance, and what that leads to is kept where it is
/// cheaper.
void improve_by_chance(const StrategyProblem& problem, int kicks, Choice& best) {
  const LocalSearch local(problem);
  const auto edges = edges_of_nodes(problem);
  std::mt19937_64 random(1);
  double least = cost_of(problem, best);
  for (int kick = 0; kick < kicks; ++kick) {
    Choice choice = best;
    const std::size_t first = random() % choice.size();
    choice[first] = random() % problem.nodes[first].size();
    for (const std::size_t e : edges[first]) {
      const StrategyEdge& edge = problem.edges[e];
      const std::size_t other = edge.from == first ? edge.to : edge.from;
      if (random() % 2 == 0) choice[other] = random() % problem.nodes[other].size();
    }
    if (memory_of(problem, choice) > problem.budget) continue;
    local.improve(choice);
    const double cost = cost_of(problem, choice);
    if (cost >= least) continue;
    least = cost;
    best = std::move(choice);
  }
}

double most_memory(const StrategyProblem& problem) {
  double sum = 0;
  for (const StrategyNode& node : problem.nodes)
    sum += *std::max_element(node.memory.begin(), node.memory.end());
  return sum;
}

/// Tables that take at most so much work, of entries times strategies.
std::unique_ptr<Elimination> tables_within(const StrategyProblem& problem, std::size_t most_entries,
                                           double most_work) {
  auto tables = std::make_unique<Elimination>(problem, most_entries);
  while (tables->entries() > most_work && most_entries > 1) {
    most_entries /= 4;
    tables = std::make_unique<Elimination>(problem, most_entries);
  }
  return tables;
}

/// Looks for a price by small tables, shifts costs at it, and again. The tables are large, of
/// `shifted`.
std::unique_ptr<Elimination> divided_tables(const StrategyProblem& problem,
                                            const StrategyOptions& options, PriceSearch& prices,
                                            StrategyProblem& shifted) {
  shifted = problem;
  for (int round = 0; round < options.rounds; ++round) {
    const auto small = tables_within(shifted, options.divided_entries, options.most_work);
    prices.run(*small);
    shifted = shift_costs(shifted, prices.price(), options.sweeps);
  }
  auto tables = tables_within(shifted, options.most_entries, options.most_work);
  prices.try_price(*tables, prices.price());
  return tables;
}

/// The problem without trivial nodes, as `out` has to be completed by those.
void choose(const StrategyProblem& problem, const StrategyOptions& options, Choice& choice,
            ChosenStrategies& out) {
  PriceSearch prices(problem);
  StrategyProblem shifted;
  auto tables = tables_within(problem, options.most_entries, options.most_work);
  if (tables->exact()) {
    prices.run(*tables);
  } else {
    tables = divided_tables(problem, options, prices, shifted);
  }
  out.prices = prices.tried();
  choice = cheapest_nearby(problem, prices);
  const bool few = problem.nodes.size() <= options.few_nodes;
  if (!tables->exact() && few) improve_by_chance(problem, options.kicks, choice);
  const double sum = tables->run(prices.price());
  out.bound = prices.bound();
  const std::int64_t most_steps = few ? options.most_steps_of_few : options.most_steps;
  const BranchOutcome outcome =
      branch_and_bound(problem, *tables, prices.price(), sum, most_steps, choice);
  out.steps = outcome.steps;
  out.finished = outcome.finished;
}

}  // namespace

double ChosenStrategies::gap() const {
  if (finished || objective <= bound) return 0;
  return (objective - bound) / std::abs(objective);
}

std::variant<ChosenStrategies, Infeasible> choose_strategies(const StrategyProblem& problem,
                                                             const StrategyOptions& options) {
  const double least = least_memory(problem);
  if (least > problem.budget) {
    return Infeasible{"the strategies that take least memory take " + number_text(least) +
                      ", and the budget is " + number_text(problem.budget) + "; " +
                      number_text(least) + " is the smallest that works"};
  }
  // Any budget beyond all memory is as good, and finite.
  StrategyProblem bounded = problem;
  bounded.budget = std::min(problem.budget, most_memory(problem));
  const MergedProblem merged(bounded);
  ChosenStrategies out;
  out.merged = merged.num_merged();
  Choice choice;
  if (merged.problem().nodes.empty()) {
    out.finished = true;
  } else {
    choose(merged.problem(), options, choice, out);
  }
  out.choice = merged.whole(choice);
  out.objective = cost_of(problem, out.choice);
  out.memory = memory_of(problem, out.choice);
  out.bound = out.finished ? out.objective : std::min(out.objective, out.bound + merged.cost());
  return out;
}

}  // namespace trainyard
