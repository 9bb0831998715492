// Segments with the least largest sum, against every way to cut.
#include "engine/partition/min_max_cuts.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "engine/base/units.h"
#include "engine/partition/min_max_segments.h"

namespace trainyard::min_max_cuts_test {

namespace {

using Numbers = std::vector<double>;

double largest_sum(const Numbers& costs, const Numbers& boundary,
                   const std::vector<std::int64_t>& begins) {
  double largest = 0, sum = 0;
  std::size_t next = 0;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    if (next < begins.size() && begins[next] == static_cast<std::int64_t>(i)) {
      largest = std::max(largest, sum + boundary[i]);
      sum = boundary[i];
      ++next;
    }
    sum += costs[i];
  }
  return std::max(largest, sum);
}

/// The least over all ways to choose `count - 1` of the places between the costs.
double by_brute_force(const Numbers& costs, const Numbers& boundary, std::int64_t count) {
  double least = kForever;
  const std::size_t places = costs.size() - 1;
  for (std::size_t chosen = 0; chosen < (std::size_t{1} << places); ++chosen) {
    std::vector<std::int64_t> begins;
    for (std::size_t i = 0; i < places; ++i) {
      if ((chosen >> i & 1U) != 0) begins.push_back(static_cast<std::int64_t>(i) + 1);
    }
    if (std::ssize(begins) + 1 == count)
      least = std::min(least, largest_sum(costs, boundary, begins));
  }
  return least;
}

}  // namespace

TEST_CASE("a cut that adds to both sides is made where it adds least") {
  // Between equal pieces, [1 1][1 1] has 2 + 5 on both sides; [1][1 1 1] has 3 + 1.
  const CutSegments found = min_max_cuts({1, 1, 1, 1}, {0, 1, 5, 5}, 2);
  CHECK(found.begins == std::vector<std::int64_t>{1});
  CHECK(found.minmax == 4);
}

TEST_CASE("where no cut may be, there is none") {
  CHECK(min_max_cuts({1, 1, 1}, {0, kForever, 0}, 2).begins == std::vector<std::int64_t>{2});
  const CutSegments none = min_max_cuts({1, 1, 1}, {0, kForever, 0}, 3);
  CHECK(none.minmax == kForever);
  CHECK(none.begins.empty());
}

TEST_CASE("no way to cut has a smaller largest sum") {
  std::mt19937 random(7);  // NOLINT: the same cases in every run
  for (int trial = 0; trial < 2000; ++trial) {
    const std::size_t n = 1 + random() % 9;
    const auto count = static_cast<std::int64_t>(1 + random() % n);
    // Few different values, so that ties and zeros are frequent; a few cuts are forbidden.
    Numbers costs(n), boundary(n, 0);
    for (double& cost : costs) cost = static_cast<double>(random() % 5);
    if (trial % 2 == 0) {
      for (double& cut : boundary)
        cut = random() % 12 == 0 ? kForever : static_cast<double>(random() % 4);
    }
    CAPTURE(trial, costs, boundary, count);
    const CutSegments found = min_max_cuts(costs, boundary, count);
    CHECK(found.minmax == by_brute_force(costs, boundary, count));
    if (found.minmax == kForever) continue;
    REQUIRE(std::ssize(found.begins) + 1 == count);
    CHECK(largest_sum(costs, boundary, found.begins) == found.minmax);
    // Without costs of cuts, the same as the faster one, cut by cut.
    if (trial % 2 == 0) continue;
    const Segments plain = min_max_segments(costs, found.begins.size() + 1);
    CHECK(plain.minmax == found.minmax);
    for (std::size_t s = 0; s < found.begins.size(); ++s)
      CHECK(static_cast<std::int64_t>(plain.ends[s]) == found.begins[s]);
  }
}

}  // namespace trainyard::min_max_cuts_test
