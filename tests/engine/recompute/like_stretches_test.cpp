// Layers that repeat: which stretches are alike, and rotor over them as over groups that are not.
#include "engine/recompute/like_stretches.h"

#include <catch2/catch.hpp>
#include <random>

#include "engine/recompute/rotor.h"
#include "tests/support/random_chain.h"

namespace trainyard::like_stretches_test {

namespace {

/// A head, layers of a few groups each that are alike, and a tail; some layers of another kind.
RecomputeChain layered_chain(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  RecomputeChain chain;
  chain.input = {1 + drawn(random, 3)};
  const auto add = [&](std::uint64_t kind) {
    random.seed(seed * 1000 + kind);
    add_group(chain, random);
  };
  const std::uint64_t each = 1 + seed % 3, layers = 6, other = seed % 5;
  add(100);
  for (std::uint64_t layer = 0; layer < layers; ++layer) {
    for (std::uint64_t i = 0; i < each; ++i) add(layer == other ? 50 + i : i);
  }
  add(200);
  chain.backward.push_back(1);
  chain.backward_extra.push_back(2);
  return chain;
}

bool are_like(const RecomputeChain& chain, int a, int b) {
  return chain.forward[a] == chain.forward[b] && chain.backward[a] == chain.backward[b] &&
         chain.input[a + 1] == chain.input[b + 1] && chain.saved[a] == chain.saved[b] &&
         chain.forward_extra[a] == chain.forward_extra[b] &&
         chain.backward_extra[a] == chain.backward_extra[b];
}

/// By its definition: group after group.
int first_like(const RecomputeChain& chain, int s, int t) {
  for (int other = 0; other < s && t < chain.num_groups(); ++other) {
    bool all = true;
    for (int i = 0; i <= t - s; ++i) all = all && are_like(chain, other + i, s + i);
    if (all) return other;
  }
  return s;
}

}  // namespace

TEST_CASE("stretches are like the first of the same groups, whatever is in front of them") {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const RecomputeChain chain = layered_chain(seed);
    const LikeStretches like(chain);
    double cuts = 0;
    for (int s = 0; s <= chain.num_groups(); ++s) {
      for (int t = s; t <= chain.num_groups(); ++t) {
        CAPTURE(seed, s, t);
        REQUIRE(like.first(s, t) == first_like(chain, s, t));
        cuts += like.first(s, t) == s ? t - s : 0;
      }
    }
    CHECK(like.cuts() == cuts);
  }
}

TEST_CASE("times that were rounded differently are alike, others are not") {
  RecomputeChain chain = layered_chain(3);  // one group a layer, the fourth of another kind
  CHECK(LikeStretches(chain).first(2, 3) == 1);
  chain.forward[2] *= 1 + 1e-12;
  CHECK(LikeStretches(chain).first(2, 3) == 1);
  chain.forward[2] *= 1 + 1e-6;
  CHECK(LikeStretches(chain).first(2, 3) == 2);
}

TEST_CASE("rotor takes as long over layers that are alike as over layers that hardly differ") {
  int recomputed = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const RecomputeChain alike = layered_chain(seed);
    RecomputeChain apart = alike;  // each group a ten-millionth longer than the one before
    for (int i = 0; i < apart.num_groups(); ++i) apart.forward[i] *= 1 + 1e-7 * i;
    const double all = LikeStretches(apart).cuts();
    CHECK(LikeStretches(alike).cuts() < all);
    const std::int64_t least = least_slots(alike);
    for (std::int64_t slots = least; slots < least + 60; slots += 3) {
      CAPTURE(seed, slots);
      const auto shared = std::get<RecomputePlan>(rotor(alike, slots));
      const auto own = std::get<RecomputePlan>(rotor(apart, slots));
      // At most 20 groups' 2e-6 of a time more.
      CHECK(shared.time == Approx(own.time).epsilon(4e-6));
      const auto outcome = run_sequence(alike, shared.sequence);
      REQUIRE(std::holds_alternative<ChainOutcome>(outcome));
      CHECK(std::get<ChainOutcome>(outcome).time == shared.time);
      CHECK(std::get<ChainOutcome>(outcome).peak <= slots);
      recomputed += shared.time > std::get<RecomputePlan>(rotor(alike, 1000)).time ? 1 : 0;
    }
  }
  CHECK(recomputed > 100);
}

}  // namespace trainyard::like_stretches_test
