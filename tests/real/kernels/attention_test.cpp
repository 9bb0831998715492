// The kernel that never keeps the scores computes what those that do compute, padding included: the
// samples of a run may have none, so that no run tells.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "tests/real/attended.h"

namespace trainyard::attention_test {

namespace {

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double apart = 0;
  for (std::size_t i = 0; i < a.size(); ++i) apart = std::max(apart, std::abs(a[i] - b[i]));
  return apart;
}

}  // namespace

TEST_CASE(
    "flash attention is attention, forward and backward, with padding, causal and by groups of "
    "heads") {
  for (const bool packed : {true, false}) {
    for (const bool causal : {false, true}) {
      for (const bool padded : {false, true}) {
        for (const std::int64_t kv_heads : {4, 2}) {
          for (const bool deferred : {false, true}) {
            AttentionTrial trial{.kv_heads = kv_heads,
                                 .packed = packed,
                                 .causal = causal,
                                 .padded = padded,
                                 .deferred = deferred};
            if (!packed && !causal) trial.queries = 5;  // of another sequence
            CAPTURE(packed, causal, padded, kv_heads, deferred);
            const Attention flash = attend_by_flash(trial), plain = attend_by_scores(trial);
            // Numbers of size 1, sums of at most 9 of them or of 6 features.
            CHECK(distance(flash.out, plain.out) < 1e-13);
            CHECK(distance(flash.dq, plain.dq) < 1e-13);
            CHECK(distance(flash.dk, plain.dk) < 1e-13);
            CHECK(distance(flash.dv, plain.dv) < 1e-13);
          }
        }
      }
    }
  }
}

TEST_CASE("flash attention has windows, whole blocks of keys out of them among these") {
  for (const bool padded : {false, true}) {
    for (const bool packed : {true, false}) {
      for (const bool deferred : {false, true}) {
        // LibTorch's kernel works on blocks of 512 keys and 64 queries, of these lengths.
        const AttentionTrial trial{.kv_heads = 2,
                                   .queries = 700,
                                   .keys = 700,
                                   .packed = packed,
                                   .causal = true,
                                   .padded = padded,
                                   .deferred = deferred,
                                   .attended = 20};
        CAPTURE(padded, packed, deferred);
        const Attention flash = attend_by_flash(trial), plain = attend_by_scores(trial);
        CHECK(distance(flash.out, plain.out) < 1e-12);
        CHECK(distance(flash.dq, plain.dq) < 1e-12);
        CHECK(distance(flash.dk, plain.dk) < 1e-12);
        CHECK(distance(flash.dv, plain.dv) < 1e-12);
      }
    }
  }
}

TEST_CASE("nothing behind the end of a sample or ahead of a query is attended to") {
  // Neither the value of padding counts nor its gradient: the last key of the last sample is
  // padding.
  const Attention padded = attend_by_scores({.padded = true}), whole = attend_by_scores({});
  const std::size_t width = 4 * 6, last = 3 * 9 * width - width;
  for (std::size_t i = 0; i < width; ++i) {
    CHECK(padded.dk[last + i] == 0);
    CHECK(padded.dv[last + i] == 0);
    CHECK(whole.dv[last + i] != 0);
  }
  CHECK(distance(padded.out, whole.out) > 1e-3);
  // The first query sees the first key alone: its result is that value.
  const Attention causal = attend_by_scores({.causal = true}),
                  one = attend_by_scores({.queries = 1, .keys = 1, .packed = false});
  for (std::size_t i = 0; i < width; ++i) CHECK(causal.out[i] == Approx(one.out[i]).epsilon(1e-14));
}

}  // namespace trainyard::attention_test
