// Which ingredient explains errors: rows made from known corrections give them back.
#include "calibrate/validate/error_regression.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "engine/base/linear_solve.h"

namespace trainyard::error_regression_test {

namespace {

RegressionRow row(double missing, double products, double tensor, double host) {
  RegressionRow out;
  out.missing = missing;
  out.share[Ingredient::kProducts] = products;
  out.share[Ingredient::kTensor] = tensor;
  out.share[Ingredient::kHost] = host;
  return out;
}

const IngredientEffect& effect(const ErrorRegression& regression, Ingredient ingredient) {
  for (const IngredientEffect& one : regression.effects) {
    if (one.ingredient == ingredient) return one;
  }
  throw std::logic_error("no such ingredient");
}

}  // namespace

TEST_CASE("a symmetric system is solved, a column that depends on others is left out") {
  // [4 2; 2 3] x = [10; 8]: x = (1.75, 1.5), by substitution.
  const auto x = solve_positive_definite({{4, 2}, {2, 3}}, {10, 8});
  CHECK(x[0] == Approx(1.75));
  CHECK(x[1] == Approx(1.5));
  // The second column is twice the first: it gets 0, the first solves 1 x = 3.
  const auto y = solve_positive_definite({{1, 2}, {2, 4}}, {3, 6});
  CHECK(y[0] == Approx(3));
  CHECK(y[1] == 0);
}

TEST_CASE("ridge pulls a solution towards 0") {
  // One unknown: x = a.b / (a.a + ridge) = 10 / (5 + 5).
  CHECK(ridge_solution({{1}, {2}}, {2, 4}, 0)[0] == Approx(2));
  CHECK(ridge_solution({{1}, {2}}, {2, 4}, 5)[0] == Approx(1));
}

TEST_CASE("rows made of corrections give the corrections back") {
  // missing = 0.3 x tensor - 0.1 x products, host right.
  std::vector<RegressionRow> rows;
  for (const double tensor : {0.0, 0.1, 0.3, 0.5}) {
    for (const double host : {0.0, 0.2, 0.4}) {
      const double products = 1 - tensor - host;
      rows.push_back(row(0.3 * tensor - 0.1 * products, products, tensor, host));
    }
  }
  const ErrorRegression regression = explain_errors(rows, 1e-9);
  CHECK(effect(regression, Ingredient::kTensor).correction == Approx(0.3).margin(1e-5));
  CHECK(effect(regression, Ingredient::kProducts).correction == Approx(-0.1).margin(1e-5));
  CHECK(effect(regression, Ingredient::kHost).correction == Approx(0).margin(1e-5));
  CHECK(effect(regression, Ingredient::kBubble).correction == 0);
  CHECK(regression.explained == Approx(1).margin(1e-5));
}

TEST_CASE("what explains most comes first") {
  // Alone, c = x.y / x.x and c x.y of y.y goes (ridge 0). y = (1, 0), so y.y = 1.
  //   products (0.2, 0.6): x.y = 0.2, x.x = 0.40: 0.04 / 0.40 = 0.1
  //   tensor   (0.8, 0.4): x.y = 0.8, x.x = 0.80: 0.64 / 0.80 = 0.8
  const ErrorRegression regression = explain_errors({row(1, 0.2, 0.8, 0), row(0, 0.6, 0.4, 0)}, 0);
  REQUIRE(regression.effects.size() == kNumIngredients);
  CHECK(regression.effects[0].ingredient == Ingredient::kTensor);
  CHECK(regression.effects[0].explains == Approx(0.8));
  CHECK(regression.effects[1].ingredient == Ingredient::kProducts);
  CHECK(regression.effects[1].explains == Approx(0.1));
  CHECK(regression.effects[0].mean_share == Approx(0.6));
  // Two rows, two unknowns: both met exactly. 0.2 p + 0.8 t = 1, 0.6 p + 0.4 t = 0: p = -1, t
  // = 1.5.
  CHECK(regression.effects[0].correction == Approx(1.5));
  CHECK(regression.effects[1].correction == Approx(-1));
  CHECK(regression.effects[0].contribution == Approx(1.5 * 0.6));
  CHECK(regression.explained == Approx(1));
}

TEST_CASE("nothing to explain") {
  CHECK(explain_errors({}).effects.empty());
  CHECK(explain_errors({row(0, 1, 0, 0)}).explained == 0);
}

}  // namespace trainyard::error_regression_test
