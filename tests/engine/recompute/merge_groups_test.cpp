// Long chains in fewer groups: what fits them fits the whole chain, in the same time.
#include "engine/recompute/merge_groups.h"

#include <catch2/catch.hpp>
#include <random>

#include "engine/recompute/rotor.h"
#include "tests/support/random_chain.h"

namespace trainyard::merge_groups_test {

namespace {

RecomputeChain random_chain(std::uint64_t seed, int groups) {
  std::mt19937_64 random(seed);
  RecomputeChain chain;
  chain.input = {1 + drawn(random, 3)};
  for (int i = 0; i < groups; ++i) add_group(chain, random);
  chain.backward.push_back(1);
  chain.backward_extra.push_back(drawn(random, 2));
  return chain;
}

}  // namespace

TEST_CASE("a sequence of merged groups runs on the whole chain, as long and within as much") {
  int recomputed = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const RecomputeChain whole = random_chain(seed, 24);
    for (const int most : {1, 5, 12, 24, 30}) {
      CAPTURE(seed, most);
      const MergedChain merged = merge_groups(whole, most);
      CHECK(merged.chain.num_groups() <= most);
      CHECK(merged.ends.back() == 24);
      const std::int64_t least = least_slots(merged.chain);
      CHECK(least >= least_slots(whole));
      for (const std::int64_t slots : {least, least + 10, least + 30}) {
        const auto plan = std::get<RecomputePlan>(rotor(merged.chain, slots));
        const auto sequence = whole_sequence(merged.ends, plan.sequence);
        const auto outcome = run_sequence(whole, sequence);
        REQUIRE(std::holds_alternative<ChainOutcome>(outcome));
        CHECK(std::get<ChainOutcome>(outcome).time == plan.time);
        CHECK(std::get<ChainOutcome>(outcome).peak <= slots);
        const auto best = std::get<RecomputePlan>(rotor(whole, slots));
        CHECK(best.time <= plan.time);
        if (most >= 24) CHECK(best.time == plan.time);
        recomputed += plan.sequence.size() > 2 * merged.ends.size() + 1 ? 1 : 0;
      }
    }
  }
  CHECK(recomputed > 100);
}

TEST_CASE("chains of sizes merge as chains of slots do") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const RecomputeChain slots = random_chain(seed, 24);
    const auto sized = [](const std::vector<std::int64_t>& sizes) {
      return std::vector<double>(sizes.begin(), sizes.end());
    };
    const SizedChain sizes = {slots.forward,
                              slots.backward,
                              sized(slots.input),
                              sized(slots.saved),
                              sized(slots.forward_extra),
                              sized(slots.backward_extra)};
    const MergedChain of_slots = merge_groups(slots, 9);
    const SizedMergedChain of_sizes = merge_groups(sizes, 9);
    CHECK(of_sizes.ends == of_slots.ends);
    CHECK(of_sizes.chain.forward == of_slots.chain.forward);
    CHECK(of_sizes.chain.saved == sized(of_slots.chain.saved));
    CHECK(of_sizes.chain.forward_extra == sized(of_slots.chain.forward_extra));
    CHECK(of_sizes.chain.backward_extra == sized(of_slots.chain.backward_extra));
  }
}

TEST_CASE("a merged group holds what its groups do") {
  // Groups that read 1, 5, 2 and save 6, 3, 4; the loss reads 2.
  const RecomputeChain whole{{1, 2, 3}, {4, 5, 6, 7}, {1, 5, 2, 2},
                             {6, 3, 4}, {0, 1, 2},    {3, 0, 1, 9}};
  const MergedChain merged = merge_groups(whole, 1);
  CHECK(merged.chain.forward == std::vector<double>{6});
  CHECK(merged.chain.backward == std::vector<double>{15, 7});
  CHECK(merged.chain.input == std::vector<std::int64_t>{1, 2});
  CHECK(merged.chain.saved == std::vector<std::int64_t>{13});
  // Dropping: 5, then 5 + 2 + 1, then 2 + 2 + 2: 8, of which 2 are the result. Saving: 13 + 2 at
  // the last, 2 more than is saved.
  CHECK(merged.chain.forward_extra == std::vector<std::int64_t>{6});
  // Backwards: 13 + 2 + 1, 9 + 2 + 0, 6 + 5 + 3: 16, and 15 are saved or the gradient.
  CHECK(merged.chain.backward_extra == std::vector<std::int64_t>{1, 9});
  using Kind = ChainOp::Kind;
  const auto text = [&](Kind kind) { return to_text(whole_sequence(merged.ends, {{kind, 0}})); };
  CHECK(text(Kind::kForwardFromCheckpoint) == "CF0 Fn1 Fn2");
  CHECK(text(Kind::kForwardSaving) == "Fe0 Fe1 Fe2");
  CHECK(text(Kind::kForward) == "Fn0 Fn1 Fn2");
  CHECK(text(Kind::kBackward) == "B2 B1 B0");
  CHECK(text(Kind::kLoss) == "L");
}

}  // namespace trainyard::merge_groups_test
