// Small systems whose answers can be checked by hand.
#include "engine/base/linear_solve.h"

#include <catch2/catch.hpp>

namespace trainyard::linear_solve_test {

TEST_CASE("a factor solves the system that it was made of") {
  Matrix a = {{4, 2}, {2, 5}};
  factorise(a);
  // L = [[2, 0], [1, 2]]: 2 * 2 = 4, 1 * 2 = 2, 1 + 4 = 5.
  CHECK(a[0][0] == Approx(2));
  CHECK(a[1][0] == Approx(1));
  CHECK(a[1][1] == Approx(2));
  // 4 * 1 + 2 * 2 = 8, 2 * 1 + 5 * 2 = 12.
  const std::vector<double> x = solve_factored(a, {8, 12});
  CHECK(x[0] == Approx(1));
  CHECK(x[1] == Approx(2));
}

TEST_CASE("a non-negative solution leaves out what would have to be negative") {
  // y = 3 a + 2 b exactly.
  CHECK(non_negative_solution({{1, 0}, {0, 1}, {1, 1}}, {3, 2, 5})[0] == Approx(3));
  CHECK(non_negative_solution({{1, 0}, {0, 1}, {1, 1}}, {3, 2, 5})[1] == Approx(2));
  // y = 3 a - 1 b: without b the best a minimises (a - 3)^2 + 1 + (a - 2)^2, so a = 2.5.
  const std::vector<double> x = non_negative_solution({{1, 0}, {0, 1}, {1, 1}}, {3, -1, 2});
  CHECK(x[0] == Approx(2.5));
  CHECK(x[1] == 0);
}

TEST_CASE("of equally good solutions the first unknown alone is taken") {
  // Both columns say the same: one of them is enough.
  const std::vector<double> x = non_negative_solution({{2, 4}}, {8});
  CHECK(x[0] == Approx(4));
  CHECK(x[1] == 0);
}

}  // namespace trainyard::linear_solve_test
