// Which ingredient of the predicted time explains the errors.
#pragma once

#include <array>
#include <vector>

#include "calibrate/validate/ingredients.h"

namespace trainyard {

/// One prediction: y = ln(measured / predicted), x = shares of the predicted time.
struct RegressionRow {
  double missing = 0;   // y
  Ingredients share{};  // x; they add up to 1
};

struct IngredientEffect {
  Ingredient ingredient = Ingredient::kProducts;
  double mean_share = 0;
  double correction = 0;    // c: small, the measurements look as if it took 1 + c of its time
  double contribution = 0;  // mean of |c x|: how far that correction moves predictions
  double explains = 0;      // part of sum y^2 that goes when this ingredient alone is corrected
};

struct ErrorRegression {
  std::vector<IngredientEffect> effects;  // what explains most first
  double explained = 0;                   // part of sum y^2 that goes with all of them
};

/// Least squares y = sum of c_k x_k with ridge: minimises
///
///   sum (y - sum c_k x_k)^2 + ridge n sum c_k^2
///
/// over n rows. `explains` of k is (2 c x.y - c^2 x.x) / y.y with c = x.y / (x.x + ridge n), the
/// same with one unknown. Shares add up to 1, so there is no constant; ridge keeps an ingredient
/// that hardly occurs from taking a large correction.
ErrorRegression explain_errors(const std::vector<RegressionRow>& rows, double ridge = 1e-3);

}  // namespace trainyard
