// Merak's sub-pipelined tensor parallelism: the two streams against the paper's closed forms.
#include "engine/schedule/sub_pipelined.h"

#include <algorithm>

#include "tests/support/golden.h"

namespace trainyard::sub_pipelined_test {

TEST_CASE("two chunks take what Merak's vectors say") {
  int cases = 0;
  const auto golden = golden_json("merak_subpipelined_tmp.json");
  for (const auto& expected : golden["cases"]) {
    const auto time = sub_pipelined(expected["K"], expected["Tm"], expected["Ta"], true);
    CHECK(time.forward == expected["fwd"].get<double>());
    CHECK(time.backward == expected["bwd"].get<double>());
    CHECK(time.total == expected["total"].get<double>());
    CHECK(time.sequential == expected["default_total"].get<double>());
    ++cases;
  }
  CHECK(cases == 18);
}

TEST_CASE("two streams in order take Merak's closed forms") {
  // Lai et al., section 5.3, with K layers, m of compute, a of all-reduce. All values are multiples
  // of 1/4 in binary, so sums are exact.
  for (const int k : {1, 2, 3, 12, 24, 96}) {
    for (const double m : {0.0, 1.0, 2.0, 4.0, 7.0}) {
      for (const double a : {0.0, 1.0, 2.0, 4.0, 5.0, 8.0, 20.0}) {
        CAPTURE(k, m, a);
        const auto time = sub_pipelined(k, m, a, true);
        CHECK(time.forward == m / 4 + (k - 0.25) * std::max(m, a) + a / 4);
        CHECK(time.backward == m / 2 + (k - 0.25) * std::max(2 * m, a) + a / 4);
        CHECK(time.total == 3 * m / 4 + a / 2 + (k - 0.25) * std::max({3 * m, 2 * m + a, 2 * a}));
        CHECK(time.sequential == (3 * m + 2 * a) * k);
        // Joined after every layer: K times one layer.
        CHECK(sub_pipelined(k, m, a, false).total == k * sub_pipelined(1, m, a, true).total);
      }
    }
  }
}

TEST_CASE("with more chunks the ends shrink, and what is hidden does not") {
  // With c chunks a chunk's block takes 1 / 2c of a layer: with K layers, m of compute, a of
  // all-reduce the first chunk computes alone, the last is reduced alone, and between the two
  // 2cK - 1 blocks take the longer of both. Powers of two, so sums are exact.
  for (const int c : {2, 4, 8}) {
    for (const int k : {1, 3, 24}) {
      for (const double m : {0.0, 1.0, 4.0, 7.0}) {
        for (const double a : {0.0, 1.0, 5.0, 20.0}) {
          CAPTURE(c, k, m, a);
          const auto time = sub_pipelined(k, m, a, true, c);
          CHECK(time.forward == (m + a + (2 * c * k - 1) * std::max(m, a)) / (2 * c));
          CHECK(time.backward == (2 * m + a + (2 * c * k - 1) * std::max(2 * m, a)) / (2 * c));
          CHECK(time.sequential == (3 * m + 2 * a) * k);
        }
      }
    }
  }
}

}  // namespace trainyard::sub_pipelined_test
