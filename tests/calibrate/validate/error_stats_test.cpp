// Errors and what is said of many of them, from examples worked by hand.
#include "calibrate/validate/error_stats.h"

#include <catch2/catch.hpp>

#include "calibrate/validate/rank_correlation.h"

namespace trainyard::error_stats_test {

TEST_CASE("an error is a share of what was measured") {
  CHECK(error_percent(12, 10) == Approx(20));
  CHECK(error_percent(8, 10) == Approx(-20));
}

TEST_CASE("a quantile lies between the two nearest values in order") {
  // In order 1 2 4 8; position q x 3. 0.5 -> 1.5: half way from 2 to 4. 0.9 -> 2.7: 4 + 0.7 x 4.
  const std::vector<double> values = {8, 1, 4, 2};
  CHECK(quantile(values, 0) == 1);
  CHECK(quantile(values, 0.5) == Approx(3));
  CHECK(quantile(values, 0.9) == Approx(6.8));
  CHECK(quantile(values, 1) == 8);
  CHECK(quantile({7}, 0.9) == 7);
}

TEST_CASE("statistics are of absolute errors, the mean beside them is signed") {
  // |errors| in order 2 4 10 20: mean 9, median 7, p90 at 2.7: 10 + 0.7 x 10 = 17; signed mean
  // (2 - 4 + 10 - 20) / 4 = -3.
  const ErrorStats stats = error_stats({{"a", 10}, {"b", -20}, {"c", 2}, {"d", -4}});
  CHECK(stats.n == 4);
  CHECK(stats.mean_abs == Approx(9));
  CHECK(stats.median_abs == Approx(7));
  CHECK(stats.p90_abs == Approx(17));
  CHECK(stats.mean == Approx(-3));
  CHECK(stats.worst.id == "b");
  CHECK(stats.worst.percent == -20);
}

TEST_CASE("of no errors nothing is said, of equal ones the first is the worst") {
  CHECK(error_stats({}).n == 0);
  CHECK(error_stats({}).worst.id.empty());
  CHECK(error_stats({{"a", -3}, {"b", 3}}).worst.id == "a");
}

TEST_CASE("tau counts the pairs that are far enough apart") {
  // Measured 100 104 120 150: 100 and 104 are 4 % apart and do not count; 5 of 6 pairs do.
  // Predicted 9 8 12 11 has the last two the wrong way round: (4 - 1) / 5.
  const RankCorrelation order = kendall_tau({9, 8, 12, 11}, {100, 104, 120, 150}, 0.05);
  CHECK(order.pairs == 5);
  REQUIRE(order.tau);
  CHECK(*order.tau == Approx(0.6));
}

TEST_CASE("exactly 5 % apart counts, equal predictions agree with neither order") {
  CHECK(kendall_tau({1, 2}, {100, 105}, 0.05).tau == 1);
  CHECK(kendall_tau({2, 1}, {100, 105}, 0.05).tau == -1);
  CHECK(kendall_tau({2, 2}, {100, 105}, 0.05).tau == 0);
  CHECK_FALSE(kendall_tau({1, 2}, {100, 104.9}, 0.05).tau);
  CHECK_FALSE(kendall_tau({1}, {1}, 0.05).tau);
}

}  // namespace trainyard::error_stats_test
