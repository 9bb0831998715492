#include "engine/strategies/merge_trivial.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "engine/base/units.h"

namespace trainyard {

namespace {

using Costs = std::vector<double>;

/// Nodes and the costs between them, from either side: costs[a][b] is [strategy of a][of b].
struct Neighbourhood {
  std::vector<std::map<std::size_t, Costs>> costs;

  void add(std::size_t a, std::size_t b, std::size_t of_a, std::size_t of_b, const Costs& more) {
    const auto add_to = [](Costs& sum, std::size_t at, double cost) { sum[at] += cost; };
    Costs& there = costs[a].try_emplace(b, Costs(of_a * of_b)).first->second;
    Costs& back = costs[b].try_emplace(a, Costs(of_a * of_b)).first->second;
    for (std::size_t i = 0; i < of_a; ++i) {
      for (std::size_t j = 0; j < of_b; ++j) {
        add_to(there, i * of_b + j, more[i * of_b + j]);
        add_to(back, j * of_a + i, more[i * of_b + j]);
      }
    }
  }
};

bool has_one_memory(const StrategyNode& node) {
  return std::all_of(node.memory.begin(), node.memory.end(),
                     [&](double memory) { return memory == node.memory[0]; });
}

/// The least cost over a node's strategies, and which that is.
template <typename Cost>
std::pair<double, std::size_t> least(std::size_t strategies, const Cost& cost) {
  std::pair<double, std::size_t> best(cost(0), 0);
  for (std::size_t k = 1; k < strategies; ++k) {
    const double now = cost(k);
    if (now < best.first) best = {now, k};
  }
  return best;
}

/// The strategy of `node` for every choice of its neighbours, two at most. Its cost goes to
/// `nodes`, to the edge between two, or, where there are none, to `rest`.
std::vector<std::size_t> merge_node(std::size_t n, std::vector<StrategyNode>& nodes,
                                    Neighbourhood& around, double& rest) {
  const StrategyNode& node = nodes[n];
  const auto& neighbours = around.costs[n];
  std::vector<std::size_t> best;
  if (neighbours.empty()) {
    const auto [cost, k] = least(node.size(), [&](std::size_t i) { return node.cost[i]; });
    rest += cost;
    return {k};
  }
  const auto& [a, to_a] = *neighbours.begin();
  const std::size_t of_a = nodes[a].size();
  if (neighbours.size() == 1) {
    for (std::size_t i = 0; i < of_a; ++i) {
      const auto [cost, k] = least(node.size(), [&, &costs = to_a](std::size_t own) {
        return node.cost[own] + costs[own * of_a + i];
      });
      nodes[a].cost[i] += cost;
      best.push_back(k);
    }
    return best;
  }
  const auto& [b, to_b] = *std::next(neighbours.begin());
  const std::size_t of_b = nodes[b].size();
  Costs between;
  for (std::size_t i = 0; i < of_a; ++i) {
    Costs row(of_b, kForever);
    std::vector<std::size_t> chosen(of_b);
    for (std::size_t own = 0; own < node.size(); ++own) {
      const double cost = node.cost[own] + to_a[own * of_a + i];
      const double* const right = &to_b[own * of_b];
      for (std::size_t j = 0; j < of_b; ++j) {
        if (!(cost + right[j] < row[j])) continue;
        row[j] = cost + right[j];
        chosen[j] = own;
      }
    }
    between.insert(between.end(), row.begin(), row.end());
    best.insert(best.end(), chosen.begin(), chosen.end());
  }
  around.add(a, b, of_a, of_b, between);
  return best;
}

/// A node without a choice: its edges are costs of its neighbours.
void merge_single(std::size_t n, std::vector<StrategyNode>& nodes, const Neighbourhood& around,
                  double& rest) {
  rest += nodes[n].cost[0];
  for (const auto& [neighbour, costs] : around.costs[n]) {
    for (std::size_t i = 0; i < costs.size(); ++i) nodes[neighbour].cost[i] += costs[i];
  }
}

}  // namespace

MergedProblem::MergedProblem(const StrategyProblem& problem) {
  std::vector<StrategyNode> nodes = problem.nodes;
  Neighbourhood around{std::vector<std::map<std::size_t, Costs>>(nodes.size())};
  for (const StrategyEdge& edge : problem.edges)
    around.add(edge.from, edge.to, nodes[edge.from].size(), nodes[edge.to].size(), edge.cost);
  double budget = problem.budget;
  std::vector<bool> merged(nodes.size());
  std::vector<std::size_t> waiting;
  for (std::size_t n = nodes.size(); n-- > 0;) waiting.push_back(n);
  while (!waiting.empty()) {
    const std::size_t n = waiting.back();
    waiting.pop_back();
    const bool single = nodes[n].size() == 1;
    if (merged[n] || !has_one_memory(nodes[n])) continue;
    if (!single && around.costs[n].size() > 2) continue;
    merged[n] = true;
    budget -= nodes[n].memory[0];
    Step step{n, {}, 1, {0}};
    if (single) {
      merge_single(n, nodes, around, cost_);
    } else {
      for (const auto& [neighbour, costs] : around.costs[n]) step.neighbours.push_back(neighbour);
      if (!step.neighbours.empty()) step.width = nodes[step.neighbours.back()].size();
      step.best = merge_node(n, nodes, around, cost_);
    }
    for (const auto& [neighbour, costs] : around.costs[n]) {
      around.costs[neighbour].erase(n);
      waiting.push_back(neighbour);
    }
    around.costs[n].clear();
    steps_.push_back(std::move(step));
  }
  std::vector<std::size_t> place(nodes.size());
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (merged[n]) continue;
    place[n] = number_.size();
    number_.push_back(n);
    merged_.nodes.push_back(std::move(nodes[n]));
  }
  for (const std::size_t n : number_) {
    for (const auto& [neighbour, costs] : around.costs[n]) {
      if (neighbour > n) merged_.edges.push_back({place[n], place[neighbour], costs});
    }
  }
  // Differences round: where the whole problem fits its budget, this one does.
  const bool fits = problem.budget >= least_memory(problem);
  merged_.budget = fits ? std::max(budget, least_memory(merged_)) : budget;
}

Choice MergedProblem::whole(const Choice& choice) const {
  Choice out(number_.size() + steps_.size());
  for (std::size_t n = 0; n < number_.size(); ++n) out[number_[n]] = choice[n];
  for (std::size_t s = steps_.size(); s-- > 0;) {
    const Step& step = steps_[s];
    std::size_t at = 0;
    if (!step.neighbours.empty()) at = out[step.neighbours[0]];
    if (step.neighbours.size() == 2) at = at * step.width + out[step.neighbours[1]];
    out[step.node] = step.best[at];
  }
  return out;
}

}  // namespace trainyard
