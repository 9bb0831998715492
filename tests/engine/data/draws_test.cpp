// Draws: streams that depend on nothing but (seed, purpose, index), and are uniform.
#include "engine/data/draws.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "real/data/choose.h"

namespace trainyard::draws_test {

TEST_CASE("a stream takes the words of Philox in order, 64 bits at a time") {
  Draws draws(0x299f31d0'a4093822, DrawPurpose::kMasking, 0x13198a2e'85a308d3);
  for (std::uint32_t block = 0; block < 2; ++block) {
    const auto purpose = static_cast<std::uint32_t>(DrawPurpose::kMasking);
    const PhiloxCounter words =
        philox({block, 0x85a308d3, 0x13198a2e, purpose}, {0xa4093822, 0x299f31d0});
    CHECK(draws.bits() == (words[0] | std::uint64_t{words[1]} << 32));
    CHECK(draws.bits() == (words[2] | std::uint64_t{words[3]} << 32));
  }
}

TEST_CASE("streams of other seeds, purposes and indices begin otherwise") {
  std::set<std::uint64_t> firsts;
  for (const std::int64_t seed : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1} << 32}) {
    for (const DrawPurpose purpose : {DrawPurpose::kMasking, DrawPurpose::kSpans}) {
      for (const std::int64_t index : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1} << 40}) {
        firsts.insert(Draws(seed, purpose, index).bits());
      }
    }
  }
  CHECK(firsts.size() == 18);
}

// Each of n values has the expectation N/n and the variance N (1/n) (1 - 1/n); 5 standard
// deviations.
TEST_CASE("below(n) is uniform over 0 .. n-1") {
  constexpr int kDraws = 70'000;
  Draws draws(1, DrawPurpose::kMasking, 0);
  std::vector<int> counts(7, 0);
  for (int i = 0; i < kDraws; ++i) ++counts.at(static_cast<std::size_t>(draws.below(7)));
  for (const int count : counts) {
    CHECK(std::abs(count - kDraws / 7) < 5 * std::sqrt(kDraws / 7.0 * (6.0 / 7)));
  }
}

TEST_CASE("uniform() lies from 0 to 1 with mean 1/2 and variance 1/12") {
  constexpr int kDraws = 100'000;
  Draws draws(1, DrawPurpose::kMasking, 0);
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = draws.uniform();
    REQUIRE((x >= 0 && x < 1));
    sum += x;
    squares += x * x;
  }
  // Var(x) = 1/12 and Var(x^2) = 1/5 - 1/9 = 4/45; 5 standard errors of the means.
  CHECK(std::abs(sum / kDraws - 0.5) < 5 * std::sqrt(1.0 / 12 / kDraws));
  CHECK(std::abs(squares / kDraws - 1.0 / 3) < 5 * std::sqrt(4.0 / 45 / kDraws));
}

// Over C(6, 3) = 20 sets the expectation is N/20 each.
TEST_CASE("every set of a size is chosen as often as any other") {
  constexpr int kDraws = 40'000;
  Draws draws(1, DrawPurpose::kMasking, 0);
  std::map<std::vector<std::int64_t>, int> counts;
  for (int i = 0; i < kDraws; ++i) ++counts[choose(3, 6, draws)];
  CHECK(counts.size() == 20);
  for (const auto& [set, count] : counts) {
    CHECK(std::abs(count - kDraws / 20) < 5 * std::sqrt(kDraws / 20.0 * 0.95));
  }
}

// 5 = a + b + c with a, b, c >= 1: C(4, 2) = 6 ways.
TEST_CASE("every split of a total is as likely as any other") {
  constexpr int kDraws = 12'000;
  Draws draws(1, DrawPurpose::kSpans, 0);
  std::map<std::vector<std::int64_t>, int> counts;
  for (int i = 0; i < kDraws; ++i) ++counts[split_total(5, 3, draws)];
  CHECK(counts.size() == 6);
  for (const auto& [sizes, count] : counts) {
    CHECK(sizes.size() == 3);
    CHECK(sizes[0] + sizes[1] + sizes[2] == 5);
    CHECK(std::abs(count - kDraws / 6) < 5 * std::sqrt(kDraws / 6.0 * (5.0 / 6)));
  }
  CHECK(split_total(4, 1, draws) == std::vector<std::int64_t>{4});
  CHECK(split_total(3, 3, draws) == std::vector<std::int64_t>{1, 1, 1});
}

}  // namespace trainyard::draws_test
