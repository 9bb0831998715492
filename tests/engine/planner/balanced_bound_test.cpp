// What no division of a model among stages that are not alike takes less than.
#include "engine/planner/balanced_bound.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <random>
#include <vector>

namespace trainyard::balanced_bound_test {

TEST_CASE("stages that are not alike share a model so that all end at once") {
  // Three pieces of 2, one stage that takes all of 6 and one that is twice as fast, 3: in 2 the
  // first does a third of the model, the second two thirds.
  CHECK(balanced_bound({{0, 2, 4, 6}, {0, 1, 2, 3}}) == Approx(2));
  CHECK(balanced_bound({{0, 1, 2, 3}, {0, 2, 4, 6}}) == Approx(2));
  // The first is fast at the first piece alone, the second at the last alone: each has its own, 1,
  // and of the middle, 4 for both, a half: 1 + 2.
  CHECK(balanced_bound({{0, 1, 5, 14}, {0, 9, 13, 14}}) == Approx(3));
  CHECK(balanced_bound({{0, 2, 5}}) == Approx(5));
}

TEST_CASE("no cuts between pieces end before the bound") {
  std::mt19937 random(1);
  std::uniform_int_distribution<int> piece(0, 6);
  for (int problem = 0; problem < 200; ++problem) {
    const std::size_t pieces = 3 + random() % 5;
    std::vector<std::vector<Seconds>> before(2, std::vector<Seconds>{0});
    for (std::vector<Seconds>& of : before) {
      for (std::size_t p = 0; p < pieces; ++p) of.push_back(of.back() + piece(random));
    }
    Seconds least = std::numeric_limits<double>::infinity();
    for (std::size_t cut = 0; cut <= pieces; ++cut)
      least = std::min(least, std::max(before[0][cut], before[1].back() - before[1][cut]));
    CAPTURE(problem);
    CHECK(balanced_bound(before) <= least + 1e-9);
  }
}

}  // namespace trainyard::balanced_bound_test
