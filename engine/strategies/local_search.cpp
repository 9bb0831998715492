#include "engine/strategies/local_search.h"

#include <algorithm>
#include <limits>

namespace trainyard {

namespace {

constexpr std::size_t kNoNode = std::numeric_limits<std::size_t>::max();
constexpr double kWorthwhile = 1e-12;  // of the cost: less is rounding
constexpr int kMostRounds = 1000;

/// One node that changes.
struct NodeMove {
  double cost = 0, memory = 0;
  std::size_t node = 0, strategy = 0;
};

}  // namespace

LocalSearch::LocalSearch(const StrategyProblem& problem)
    : problem_(problem),
      edges_(edges_of_nodes(problem)) {}

double LocalSearch::change(const Choice& choice, std::size_t node, std::size_t strategy,
                           std::size_t without) const {
  const StrategyNode& of_node = problem_.nodes[node];
  double sum = of_node.cost[strategy] - of_node.cost[choice[node]];
  for (const std::size_t e : edges_[node]) {
    const StrategyEdge& edge = problem_.edges[e];
    const bool from = edge.from == node;
    const std::size_t other = from ? edge.to : edge.from;
    if (other == without) continue;
    sum += from ? between(e, strategy, choice[other]) - between(e, choice[node], choice[other])
                : between(e, choice[other], strategy) - between(e, choice[other], choice[node]);
  }
  return sum;
}

void LocalSearch::put(State& state, std::size_t node, std::size_t strategy) const {
  state.choice[node] = strategy;
  for (const std::size_t e : edges_[node]) {
    const StrategyEdge& edge = problem_.edges[e];
    const std::size_t other = edge.from == node ? edge.to : edge.from;
    for (const std::size_t around : edges_[other]) state.pair_needs[around] = kNotKnown;
  }
}

bool LocalSearch::improve_nodes(State& state) const {
  const Choice& choice = state.choice;
  bool any = false;
  for (std::size_t n = 0; n < choice.size(); ++n) {
    std::size_t best = choice[n];
    double least = -kWorthwhile;
    for (std::size_t k = 0; k < problem_.nodes[n].size(); ++k) {
      if (memory(n, k) - memory(n, choice[n]) > state.left) continue;
      const double cost = change(choice, n, k, kNoNode);
      if (cost < least) {
        least = cost;
        best = k;
      }
    }
    if (best == choice[n]) continue;
    state.left -= memory(n, best) - memory(n, choice[n]);
    put(state, n, best);
    any = true;
  }
  return any;
}

bool LocalSearch::improve_pairs(State& state) const {
  const Choice& choice = state.choice;
  bool any = false;
  std::vector<double> of_from, of_to;
  for (std::size_t e = 0; e < problem_.edges.size(); ++e) {
    if (state.pair_needs[e] > state.left) continue;
    const StrategyEdge& edge = problem_.edges[e];
    const std::size_t a = edge.from, b = edge.to;
    of_from.resize(problem_.nodes[a].size());
    of_to.resize(problem_.nodes[b].size());
    for (std::size_t i = 0; i < of_from.size(); ++i) of_from[i] = change(choice, a, i, b);
    for (std::size_t j = 0; j < of_to.size(); ++j) of_to[j] = change(choice, b, j, a);
    const auto joining = [&](std::size_t i, std::size_t j) {
      double sum = 0;
      for (const std::size_t other : edges_[a]) {
        const StrategyEdge& joins = problem_.edges[other];
        if (joins.from == a && joins.to == b) sum += between(other, i, j);
        if (joins.from == b && joins.to == a) sum += between(other, j, i);
      }
      return sum;
    };
    const double now = joining(choice[a], choice[b]);
    const double held = memory(a, choice[a]) + memory(b, choice[b]);
    double least = -kWorthwhile, needs = std::numeric_limits<double>::infinity();
    std::size_t best_a = choice[a], best_b = choice[b];
    for (std::size_t i = 0; i < of_from.size(); ++i) {
      for (std::size_t j = 0; j < of_to.size(); ++j) {
        const double more = memory(a, i) + memory(b, j) - held;
        if (more >= needs && more > state.left) continue;
        const double cost = of_from[i] + of_to[j] + joining(i, j) - now;
        if (cost < -kWorthwhile) needs = std::min(needs, more);
        if (cost >= least || more > state.left) continue;
        least = cost;
        best_a = i;
        best_b = j;
      }
    }
    state.pair_needs[e] = needs;
    if (best_a == choice[a] && best_b == choice[b]) continue;
    state.left -= memory(a, best_a) + memory(b, best_b) - held;
    put(state, a, best_a);
    put(state, b, best_b);
    any = true;
  }
  return any;
}

bool LocalSearch::exchange(State& state) const {
  const Choice& choice = state.choice;
  std::vector<NodeMove> saving, freeing;
  for (std::size_t n = 0; n < choice.size(); ++n) {
    for (std::size_t k = 0; k < problem_.nodes[n].size(); ++k) {
      if (k == choice[n]) continue;
      const NodeMove move{change(choice, n, k, kNoNode), memory(n, k) - memory(n, choice[n]), n, k};
      if (move.cost < -kWorthwhile) saving.push_back(move);
      if (move.memory < 0) freeing.push_back(move);
    }
  }
  // By memory freed, the most first, with the cheapest so far: what frees enough is a beginning.
  std::sort(freeing.begin(), freeing.end(),
            [](const NodeMove& a, const NodeMove& b) { return a.memory < b.memory; });
  std::vector<std::size_t> cheapest(freeing.size());
  for (std::size_t i = 0; i < freeing.size(); ++i) {
    cheapest[i] = i == 0 || freeing[i].cost < freeing[cheapest[i - 1]].cost ? i : cheapest[i - 1];
  }
  const auto joined = [&](std::size_t a, std::size_t b) {
    return a == b || std::any_of(edges_[a].begin(), edges_[a].end(), [&](std::size_t e) {
             return problem_.edges[e].from == b || problem_.edges[e].to == b;
           });
  };
  double least = -kWorthwhile;
  const NodeMove* best_saving = nullptr;
  const NodeMove* best_freeing = nullptr;
  for (const NodeMove& move : saving) {
    const double wanted = state.left - move.memory;  // a freeing move's memory is at most this
    const auto enough = std::partition_point(freeing.begin(), freeing.end(),
                                             [&](const NodeMove& m) { return m.memory <= wanted; });
    if (enough == freeing.begin()) continue;
    const NodeMove& free = freeing[cheapest[enough - freeing.begin() - 1]];
    if (move.cost + free.cost >= least || joined(move.node, free.node)) continue;
    least = move.cost + free.cost;
    best_saving = &move;
    best_freeing = &free;
  }
  if (best_saving == nullptr) return false;
  for (const NodeMove* move : {best_saving, best_freeing}) {
    put(state, move->node, move->strategy);
    state.left -= move->memory;
  }
  return true;
}

void LocalSearch::improve(Choice& choice) const {
  State state{choice, problem_.budget - memory_of(problem_, choice),
              std::vector<double>(problem_.edges.size(), kNotKnown)};
  for (int round = 0; round < kMostRounds; ++round) {
    if (!improve_nodes(state) && !improve_pairs(state) && !exchange(state)) return;
    // Sums of differences drift; the budget is exact.
    state.left = problem_.budget - memory_of(problem_, choice);
  }
}

void LocalSearch::take_over(Choice& choice, const Choice& other) const {
  struct Group {
    std::vector<std::size_t> nodes;
    double cost = 0, memory = 0;
  };
  std::vector<Group> groups;
  std::vector<bool> seen(choice.size());
  for (std::size_t first = 0; first < choice.size(); ++first) {
    if (seen[first] || choice[first] == other[first]) continue;
    Group group;
    group.nodes = {first};
    seen[first] = true;
    for (std::size_t i = 0; i < group.nodes.size(); ++i) {
      for (const std::size_t e : edges_[group.nodes[i]]) {
        const StrategyEdge& edge = problem_.edges[e];
        const std::size_t next = edge.from == group.nodes[i] ? edge.to : edge.from;
        if (seen[next] || choice[next] == other[next]) continue;
        seen[next] = true;
        group.nodes.push_back(next);
      }
    }
    Choice with = choice;
    for (const std::size_t n : group.nodes) {
      group.cost += change(with, n, other[n], kNoNode);
      group.memory += memory(n, other[n]) - memory(n, choice[n]);
      with[n] = other[n];
    }
    if (group.cost < 0 || group.memory < 0) groups.push_back(std::move(group));
  }
  std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    // Saved cost per unit of memory; what takes none comes first.
    if ((a.memory <= 0) != (b.memory <= 0)) return a.memory <= 0;
    return a.cost * std::max(b.memory, 0.0) < b.cost * std::max(a.memory, 0.0);
  });
  double left = problem_.budget - memory_of(problem_, choice);
  for (const Group& group : groups) {
    if (group.cost >= 0 || group.memory > left) continue;
    for (const std::size_t n : group.nodes) choice[n] = other[n];
    left -= group.memory;
  }
}

}  // namespace trainyard
