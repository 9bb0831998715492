#include "report/step_cost.h"

#include <catch2/catch.hpp>

namespace trainyard::step_cost_test {

TEST_CASE("every device of the cluster is paid, for as long as a step takes") {
  Study study;
  study.price = 3.6;
  study.cluster.num_devices = 10;  // of which the plan's one rank uses one
  // 3.6 x 10 / 3,600 s = 0.01 a second: 0.02 for 2 s, and for 10^6 tokens at 1,000 a second 10.
  const auto cost = step_cost(study, 2, 1000);
  REQUIRE(cost);
  CHECK(cost->devices == 10);
  CHECK(cost->per_step == Approx(0.02));
  CHECK(cost->per_million_tokens == Approx(10));
}

TEST_CASE("a study without a price has no cost") {
  const Study study;
  CHECK_FALSE(step_cost(study, 2, 1000));
}

}  // namespace trainyard::step_cost_test
