// Attention block by block is attention: by any number of ranks, keys going round or gathered.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "tests/real/attended.h"

namespace trainyard {

namespace {

/// The largest difference, over the largest number.
double distance(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double apart = 0, most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    apart = std::max(apart, std::abs(a[i] - b[i]));
    most = std::max(most, std::abs(b[i]));
  }
  REQUIRE(most > 0);
  return apart / most;
}

}  // namespace

TEST_CASE("attention round a ring, or to gathered keys, is that of one rank to 1e-12") {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    for (const bool ring : {true, false}) {
      for (const bool causal : {true, false}) {
        for (const std::int64_t kv_heads : {4, 2}) {
          for (const bool deferred : {false, true}) {
            CAPTURE(ranks, ring, causal, kv_heads, deferred);
            const AttentionTrial trial{.kv_heads = kv_heads,
                                       .queries = 48,
                                       .keys = 48,
                                       .causal = causal,
                                       .deferred = deferred};
            const Attention blocks = attend_by_blocks(trial, ranks, ring),
                            whole = attend_by_scores(trial);
            CHECK(distance(blocks.out, whole.out) < 1e-12);
            CHECK(distance(blocks.dq, whole.dq) < 1e-12);
            CHECK(distance(blocks.dk, whole.dk) < 1e-12);
            CHECK(distance(blocks.dv, whole.dv) < 1e-12);
          }
        }
      }
    }
  }
}

}  // namespace trainyard
