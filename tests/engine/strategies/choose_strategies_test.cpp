// Strategies under a memory budget: every choice tried, memory as a dimension of a table, bounds,
// merges.
#include "engine/strategies/choose_strategies.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <string>

#include "engine/base/units.h"
#include "engine/strategies/elimination.h"
#include "engine/strategies/local_search.h"
#include "engine/strategies/merge_trivial.h"
#include "engine/strategies/shift_costs.h"
#include "tests/support/random_strategies.h"

namespace trainyard::choose_strategies_test {

namespace {

ChosenStrategies chosen(const StrategyProblem& problem, const StrategyOptions& options = {}) {
  auto found = choose_strategies(problem, options);
  REQUIRE(std::holds_alternative<ChosenStrategies>(found));
  return std::get<ChosenStrategies>(std::move(found));
}

/// Visits every choice.
template <typename Visit>
void each_choice(const StrategyProblem& problem, const Visit& visit) {
  Choice choice(problem.nodes.size());
  for (;;) {
    visit(choice);
    std::size_t n = 0;
    while (n < choice.size() && ++choice[n] == problem.nodes[n].size()) choice[n++] = 0;
    if (n == choice.size()) return;
  }
}

double cheapest_of_all(const StrategyProblem& problem, double price = 0) {
  double best = kForever;
  each_choice(problem, [&](const Choice& choice) {
    const double memory = memory_of(problem, choice);
    if (memory <= problem.budget) best = std::min(best, cost_of(problem, choice) + price * memory);
  });
  return best;
}

/// A random graph of few nodes: any edges, unlike numbers of strategies, some nodes trivial.
StrategyProblem small_problem(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto draw = [&](int most) { return static_cast<double>(random() % (most + 1)); };
  StrategyProblem problem;
  const std::size_t nodes = 2 + random() % 6;
  double least = 0, most = 0;
  for (std::size_t n = 0; n < nodes; ++n) {
    StrategyNode& node = problem.nodes.emplace_back();
    const std::size_t strategies = 1 + random() % 4;
    const bool trivial = random() % 3 == 0;
    const double memory = draw(5);
    for (std::size_t k = 0; k < strategies; ++k) {
      node.cost.push_back(draw(20));
      node.memory.push_back(trivial ? memory : draw(9));
    }
    least += *std::min_element(node.memory.begin(), node.memory.end());
    most += *std::max_element(node.memory.begin(), node.memory.end());
  }
  for (std::size_t e = 0; e < 2 * nodes; ++e) {
    const std::size_t from = random() % nodes, to = random() % nodes;
    if (from == to) continue;
    StrategyEdge& edge = problem.edges.emplace_back(StrategyEdge{from, to, {}});
    for (std::size_t i = 0; i < problem.nodes[from].size() * problem.nodes[to].size(); ++i)
      edge.cost.push_back(draw(9));
  }
  problem.budget = least + std::floor((most - least) * static_cast<double>(random() % 8) / 8);
  return problem;
}

/// The cheapest choice of a chain with skips over one node, whose memory is in whole numbers: by a
/// table of the last two nodes' strategies and the memory used.
double cheapest_by_memory(const StrategyProblem& problem) {
  const std::size_t count = problem.nodes.size(), width = problem.nodes[0].size();
  const auto budget = static_cast<std::size_t>(problem.budget);
  std::vector<std::vector<const StrategyEdge*>> into(count);
  for (const StrategyEdge& edge : problem.edges) into[edge.to].push_back(&edge);
  using Table = std::vector<double>;  // [before last][last][memory]
  const auto at = [&](std::size_t i, std::size_t j, std::size_t m) {
    return (i * width + j) * (budget + 1) + m;
  };
  Table now(width * width * (budget + 1), kForever);
  for (std::size_t j = 0; j < width; ++j) {
    const auto memory = static_cast<std::size_t>(problem.nodes[0].memory[j]);
    if (memory <= budget) now[at(0, j, memory)] = problem.nodes[0].cost[j];
  }
  for (std::size_t n = 1; n < count; ++n) {
    Table next(now.size(), kForever);
    for (std::size_t i = 0; i < width; ++i) {
      for (std::size_t j = 0; j < width; ++j) {
        for (std::size_t k = 0; k < width; ++k) {
          double cost = problem.nodes[n].cost[k];
          for (const StrategyEdge* edge : into[n])
            cost += edge->cost[(edge->from == n - 1 ? j : i) * width + k];
          const auto memory = static_cast<std::size_t>(problem.nodes[n].memory[k]);
          for (std::size_t m = memory; m <= budget; ++m) {
            double& best = next[at(j, k, m)];
            best = std::min(best, now[at(i, j, m - memory)] + cost);
          }
        }
      }
    }
    now = std::move(next);
  }
  return *std::min_element(now.begin(), now.end());
}

}  // namespace

TEST_CASE("the cheapest of all choices of small problems is found, and a budget kept") {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    const StrategyProblem problem = small_problem(seed);
    const ChosenStrategies found = chosen(problem);
    CHECK(found.finished);
    CHECK(found.objective == Approx(cheapest_of_all(problem)).epsilon(1e-9));
    CHECK(found.memory <= problem.budget);
    CHECK(found.objective == cost_of(problem, found.choice));
    CHECK(found.gap() == 0);
  }
}

TEST_CASE("small problems whose tables have to be divided are solved as well") {
  StrategyOptions options;
  options.most_entries = options.divided_entries = 4;
  for (std::uint64_t seed = 400; seed < 600; ++seed) {
    CAPTURE(seed);
    const StrategyProblem problem = small_problem(seed);
    const ChosenStrategies found = chosen(problem, options);
    CHECK(found.finished);
    CHECK(found.objective == Approx(cheapest_of_all(problem)).epsilon(1e-9));
  }
}

TEST_CASE("200 problems of 40 nodes and 6 strategies are solved to the end") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    StrategyProblem problem = random_strategies({40, 6, 60, 2, 0.7, seed % 2 == 1}, seed);
    // In whole numbers, so that memory can be a dimension of a table.
    for (StrategyNode& node : problem.nodes) {
      for (double& memory : node.memory) memory = std::ceil(memory * (seed % 2 == 1 ? 2 : 20));
    }
    problem.budget = std::floor(0.7 * problem.budget * (seed % 2 == 1 ? 2 : 20)) + 40;
    if (problem.budget < least_memory(problem)) problem.budget = least_memory(problem);
    const ChosenStrategies found = chosen(problem);
    CHECK(found.finished);
    CHECK(found.objective == Approx(cheapest_by_memory(problem)).epsilon(1e-9));
  }
}

TEST_CASE("a gap is certified where a search does not come to its end") {
  StrategyOptions options;
  options.most_steps = 0;
  for (const bool sharded : {false, true}) {
    const StrategyProblem problem = random_strategies({100, 8, 140, 4, 0.7, sharded}, 3);
    const ChosenStrategies rough = chosen(problem, options);
    const ChosenStrategies best = chosen(problem);
    CHECK(best.finished);
    CHECK(rough.bound <= best.objective * (1 + 1e-9));
    CHECK(best.objective <= rough.objective);
    CHECK(rough.gap() <= 0.01);
    CHECK(rough.objective * (1 - rough.gap()) <= best.objective * (1 + 1e-9));
  }
}

TEST_CASE("trivial nodes go into their neighbours without changing the optimum") {
  std::size_t merged = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const StrategyProblem problem = small_problem(seed);
    const MergedProblem smaller(problem);
    merged += smaller.num_merged();
    CHECK(smaller.problem().nodes.size() + smaller.num_merged() == problem.nodes.size());
    double best = kForever;
    each_choice(smaller.problem(), [&](const Choice& choice) {
      const Choice whole = smaller.whole(choice);
      // What the smaller problem says of a choice is what the whole one has.
      const double cost = cost_of(smaller.problem(), choice) + smaller.cost();
      CHECK(cost == Approx(cost_of(problem, whole)));
      if (memory_of(smaller.problem(), choice) <= smaller.problem().budget)
        best = std::min(best, cost);
    });
    CHECK(best == Approx(cheapest_of_all(problem)));
  }
  CHECK(merged > 200);
}

TEST_CASE("tables say the least of cost and priced memory, and divided ones no more than that") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    StrategyProblem problem = small_problem(seed);
    problem.budget = kForever;
    for (const double price : {0.0, 1.5}) {
      const double least = cheapest_of_all(problem, price);
      Elimination whole(problem, 1'000'000);
      CHECK(whole.exact());
      CHECK(whole.run(price) == Approx(least));
      const Choice best = whole.best();
      CHECK(cost_of(problem, best) + price * memory_of(problem, best) == Approx(least));
      Elimination divided(problem, 4);
      CHECK(divided.run(price) <= least + 1e-9);
    }
  }
}

TEST_CASE("shifted costs are the same of every choice, and bound better what is divided") {
  int better = 0, worse = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    StrategyProblem problem = small_problem(seed);
    const StrategyProblem shifted = shift_costs(problem, 1.5, 50);
    each_choice(problem, [&](const Choice& choice) {
      CHECK(cost_of(shifted, choice) == Approx(cost_of(problem, choice)).margin(1e-9));
    });
    Elimination before(problem, 1), behind(shifted, 1);
    const double difference = behind.run(1.5) - before.run(1.5);
    better += difference > 1e-9 ? 1 : 0;
    worse += difference < -1e-9 ? 1 : 0;
  }
  CHECK(better > 5 * worse);
}

TEST_CASE("local search keeps the budget and never makes a choice dearer") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    const StrategyProblem problem = small_problem(seed);
    const LocalSearch local(problem);
    each_choice(problem, [&, other = Choice(problem.nodes.size())](const Choice& start) {
      if (memory_of(problem, start) > problem.budget) return;
      Choice better = start;
      local.take_over(better, other);
      const double mixed = cost_of(problem, better);
      CHECK(mixed <= cost_of(problem, start) + 1e-9);
      local.improve(better);
      CHECK(cost_of(problem, better) <= mixed + 1e-9);
      CHECK(memory_of(problem, better) <= problem.budget);
    });
  }
}

TEST_CASE("a budget that is too small says what works") {
  StrategyProblem problem;
  problem.nodes = {{{1, 2}, {4, 3}}, {{1}, {2}}};
  problem.budget = 4.5;
  const auto found = choose_strategies(problem);
  REQUIRE(std::holds_alternative<Infeasible>(found));
  CHECK(std::get<Infeasible>(found).reason ==
        "the strategies that take least memory take 5, and the budget is 4.5; 5 is the smallest "
        "that works");
  problem.budget = 5;
  CHECK(chosen(problem).choice == Choice{1, 0});
}

TEST_CASE("the smallest budget works whatever sums round to") {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> draw(0, 1);
  for (int trial = 0; trial < 200; ++trial) {
    StrategyProblem problem;
    for (int n = 0; n < 12; ++n) {
      const double memory = draw(random);
      problem.nodes.push_back(n % 2 == 0 ? StrategyNode{{1, 2}, {memory, memory}}
                                         : StrategyNode{{1, 2}, {memory + 0.1, memory}});
    }
    problem.budget = least_memory(problem);
    const ChosenStrategies found = chosen(problem);
    CHECK(found.objective == 6 * 1 + 6 * 2);
    CHECK(found.memory <= problem.budget);
  }
}

TEST_CASE("layers that repeat, and some that do not, come to what a table over the layers says") {
  // Each layer is two nodes between its neighbours'; the residual skips the first. Layer 7 differs.
  constexpr std::size_t kLayers = 12, kWays = 3;
  const auto cost = [](std::size_t layer, std::size_t a, std::size_t b) {
    return static_cast<double>((a * 5 + b * 3) % 7) + (layer == 7 ? static_cast<double>(a) : 0);
  };
  StrategyProblem problem;
  std::vector<double> least(kWays);  // of all up to a layer, by the strategy of its second node
  for (std::size_t layer = 0; layer < kLayers; ++layer) {
    const std::size_t inner = problem.nodes.size(), outer = inner + 1;
    problem.nodes.push_back({{1, 2, 4}, {0, 0, 0}});
    problem.nodes.push_back({{3, 1, 2}, {0, 0, 0}});
    std::vector<double> next(kWays, kForever);
    StrategyEdge in{inner - 1, inner, {}}, skip{inner - 1, outer, {}}, between{inner, outer, {}};
    for (std::size_t a = 0; a < kWays; ++a) {
      for (std::size_t b = 0; b < kWays; ++b) {
        in.cost.push_back(cost(layer, a, b));
        skip.cost.push_back(cost(layer, b, a) / 2);
        between.cost.push_back(cost(layer, a + 1, b));
      }
    }
    for (std::size_t before = 0; before < kWays; ++before) {
      for (std::size_t a = 0; a < kWays; ++a) {
        for (std::size_t b = 0; b < kWays; ++b) {
          double sum =
              problem.nodes[inner].cost[a] + problem.nodes[outer].cost[b] + cost(layer, a + 1, b);
          if (layer > 0) sum += least[before] + cost(layer, before, a) + cost(layer, b, before) / 2;
          next[b] = std::min(next[b], sum);
        }
      }
    }
    least = next;
    problem.edges.push_back(between);
    if (layer > 0) {
      problem.edges.push_back(in);
      problem.edges.push_back(skip);
    }
  }
  Elimination tables(problem, 1'000);
  REQUIRE(tables.exact());
  const double expected = *std::min_element(least.begin(), least.end());
  CHECK(tables.run(0) == Approx(expected).epsilon(1e-12));
  CHECK(cost_of(problem, tables.best()) == Approx(expected).epsilon(1e-12));
  // Without a price all memory is free; with one nothing that repeats is taken over from the last.
  CHECK(tables.run(5) == Approx(expected).epsilon(1e-12));
}

}  // namespace trainyard::choose_strategies_test
