#include "tests/support/random_strategies.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <utility>

#include "engine/strategies/elimination.h"

namespace trainyard {

namespace {

constexpr std::size_t kEntries = 600'000;  // of a table, for the choice that ignores memory

std::set<std::pair<std::size_t, std::size_t>> random_edges(const StrategyShape& shape,
                                                           std::mt19937_64& random) {
  std::set<std::pair<std::size_t, std::size_t>> out;
  for (std::size_t n = 1; n < shape.nodes; ++n) out.emplace(n - 1, n);
  while (out.size() < shape.edges) {
    const std::size_t from = random() % shape.nodes;
    const std::size_t span = 2 + random() % (shape.most_span - 1);
    if (from + span < shape.nodes) out.emplace(from, from + span);
  }
  return out;
}

}  // namespace

StrategyProblem random_strategies(const StrategyShape& shape, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> draw(0, 1);
  StrategyProblem problem;
  for (std::size_t n = 0; n < shape.nodes; ++n) {
    StrategyNode& node = problem.nodes.emplace_back();
    const double work = std::pow(10, draw(random)), bytes = std::pow(10, draw(random));
    for (std::size_t k = 0; k < shape.strategies; ++k) {
      const double devices = std::pow(2, static_cast<double>(k % 4));
      node.cost.push_back(shape.sharded
                              ? work * (1 / devices + 0.2 * std::log2(devices) * draw(random))
                              : draw(random));
      node.memory.push_back(shape.sharded ? bytes * (1 / devices + 0.1 * draw(random))
                                          : draw(random));
    }
  }
  for (const auto& [from, to] : random_edges(shape, random)) {
    StrategyEdge& edge = problem.edges.emplace_back(StrategyEdge{from, to, {}});
    const double bytes = std::pow(10, draw(random)) / 4;
    for (std::size_t i = 0; i < shape.strategies; ++i) {
      for (std::size_t j = 0; j < shape.strategies; ++j) {
        const double moved = draw(random);
        edge.cost.push_back(!shape.sharded ? moved : i == j ? 0 : bytes * (0.25 + moved));
      }
    }
  }
  Elimination tables(problem, kEntries);
  tables.run(0);
  problem.budget =
      std::max(least_memory(problem), shape.memory_share * memory_of(problem, tables.best()));
  return problem;
}

}  // namespace trainyard
