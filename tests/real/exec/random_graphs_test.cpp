// What the real executor makes of a compiled graph of general ops is what LibTorch's autograd makes
// of it: values, loss, gradients of the parameters. On one rank, and cut into stages.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/real/graph_run.h"
#include "tests/support/random_graph.h"

namespace trainyard {

namespace {

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return INFINITY;
  double apart = 0, size = 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    apart = std::max(apart, std::abs(a[i] - b[i]));
    size = std::max(size, std::abs(b[i]));
  }
  return apart / size;
}

void check_run(const Graph& graph, const Plan& plan) {
  const GraphRun theirs = differentiate_by_torch(graph), ours = run_graph(graph, plan);
  CHECK(ours.greedy == std::vector<std::string>());
  CHECK(ours.loss == Approx(theirs.loss).epsilon(1e-12));
  CHECK(ours.gradients.size() == theirs.gradients.size());
  for (const auto& [name, gradient] : theirs.gradients) {
    CAPTURE(name);
    REQUIRE(ours.gradients.contains(name));
    CHECK(distance(ours.gradients.at(name), gradient) < 1e-12);
  }
  for (const auto& [name, value] : ours.results) {
    if (!theirs.results.contains(name)) continue;  // made by the step, not by the graph
    CAPTURE(name);
    CHECK(distance(value, theirs.results.at(name)) < 1e-12);
  }
}

}  // namespace

TEST_CASE("random graphs of general ops train as autograd says") {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    check_run(random_graph(seed, {.ops = 1 + static_cast<int>(seed % 12)}), plan_of_graph());
  }
}

TEST_CASE("random graphs of convolutions, pools and batch norms train as autograd says") {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    check_run(random_graph(seed, {.ops = 1 + static_cast<int>(seed % 8), .images = true}),
              plan_of_graph());
  }
}

TEST_CASE("random graphs train the same in stages, with their forward again, by half backwards") {
  Plan plan = plan_of_graph();
  plan.parallel.pipeline = 2;
  const auto how = GENERATE(0, 1, 2);
  if (how == 1) plan.recompute.method = RecomputeConfig::Method::kFull;
  if (how == 2) plan.schedule.method = "zb-h1";
  for (std::uint64_t seed = 1000; seed < 1050; ++seed) {
    CAPTURE(seed, how);
    check_run(random_graph(seed, {.ops = 4 + static_cast<int>(seed % 9), .layers = 2}), plan);
  }
}

}  // namespace trainyard
