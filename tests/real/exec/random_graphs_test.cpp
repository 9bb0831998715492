// What the real executor makes of a compiled graph of general ops is what LibTorch's autograd makes
// of it: values, loss, gradients of the parameters. On one rank, and cut into stages.
#include <catch2/catch.hpp>

#include "tests/real/exec/against_autograd.h"
#include "tests/support/random_graph.h"

namespace trainyard::random_graphs_test {

namespace {

constexpr double kWithin = 1e-12;

}  // namespace

TEST_CASE("random graphs of general ops train as autograd says") {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    check_against_autograd(random_graph(seed, {.ops = 1 + static_cast<int>(seed % 12)}),
                           plan_of_graph(), kWithin);
  }
}

TEST_CASE("random graphs of convolutions, pools and batch norms train as autograd says") {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    check_against_autograd(
        random_graph(seed, {.ops = 1 + static_cast<int>(seed % 8), .images = true}),
        plan_of_graph(), kWithin);
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
    check_against_autograd(random_graph(seed, {.ops = 4 + static_cast<int>(seed % 9), .layers = 2}),
                           plan, kWithin);
  }
}

}  // namespace trainyard::random_graphs_test
