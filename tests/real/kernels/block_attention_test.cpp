// Attention block by block is attention: by any number of ranks, keys going round or gathered.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "tests/real/attended.h"

namespace trainyard::block_attention_test {

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

void check_alike(const Attention& a, const Attention& b) {
  CHECK(distance(a.out, b.out) < 1e-12);
  CHECK(distance(a.dq, b.dq) < 1e-12);
  CHECK(distance(a.dk, b.dk) < 1e-12);
  CHECK(distance(a.dv, b.dv) < 1e-12);
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
            check_alike(blocks, whole);
          }
        }
      }
    }
  }
}

TEST_CASE("windows and documents hide the same keys from blocks, however the sequence is cut") {
  const std::vector<DocumentConfig> documents = {
      {}, {.lengths = {48}}, {.lengths = {5, 11, 1}}, {.lengths = {}, .mean = 9, .seed = 3}};
  for (const int ranks : {1, 2, 3, 4, 8}) {
    for (const bool ring : {true, false}) {
      for (const bool contiguous : {false, true}) {
        for (const std::int32_t window : {0, 2, 7, 13, 47}) {
          for (const DocumentConfig& packed : documents) {
            for (const bool deferred : {false, true}) {
              CAPTURE(ranks, ring, contiguous, window, packed.lengths, packed.mean, deferred);
              const AttentionTrial trial{.kv_heads = 2,
                                         .queries = 48,
                                         .keys = 48,
                                         .causal = true,
                                         .deferred = deferred,
                                         .attended = window,
                                         .documents = packed,
                                         .contiguous = contiguous};
              check_alike(attend_by_blocks(trial, ranks, ring), attend_by_scores(trial));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("attention of a whole sample stays inside its documents") {
  for (const std::int32_t window : {0, 2, 4, 20}) {
    for (const DocumentConfig& packed : {DocumentConfig{.lengths = {30}},
                                         {.lengths = {1, 7}},
                                         {.lengths = {}, .mean = 6, .least = 2, .most = 9}}) {
      CAPTURE(window, packed.lengths, packed.mean);
      const AttentionTrial trial{
          .queries = 30, .keys = 30, .causal = true, .attended = window, .documents = packed};
      check_alike(attend_by_flash(trial), attend_by_scores(trial));
    }
  }
}

}  // namespace trainyard::block_attention_test
