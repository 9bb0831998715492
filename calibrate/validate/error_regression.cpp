#include "calibrate/validate/error_regression.h"

#include <algorithm>
#include <cmath>

#include "engine/base/linear_solve.h"

namespace trainyard {

ErrorRegression explain_errors(const std::vector<RegressionRow>& rows, double ridge) {
  ErrorRegression out;
  if (rows.empty()) return out;
  const auto n = static_cast<double>(rows.size());
  Matrix shares;
  std::vector<double> missing;
  double total = 0;
  for (const RegressionRow& row : rows) {
    shares.emplace_back(row.share.begin(), row.share.end());
    missing.push_back(row.missing);
    total += row.missing * row.missing;
  }
  const Indexed<Ingredient, double> corrections(ridge_solution(shares, missing, ridge * n));

  double left = 0;
  for (const RegressionRow& row : rows) {
    double rest = row.missing;
    for (const Ingredient k : row.share.keys()) rest -= corrections[k] * row.share[k];
    left += rest * rest;
  }
  out.explained = total > 0 ? 1 - left / total : 0;

  for (const Ingredient k : Ingredients::keys()) {
    IngredientEffect effect;
    effect.ingredient = k;
    effect.correction = corrections[k];
    double square = 0;
    double product = 0;
    for (const RegressionRow& row : rows) {
      effect.mean_share += row.share[k] / n;
      effect.contribution += std::abs(corrections[k] * row.share[k]) / n;
      square += row.share[k] * row.share[k];
      product += row.share[k] * row.missing;
    }
    if (total > 0) {
      // With c = product / (square + ridge n): 2 c product - c^2 square of sum y^2 goes.
      const double alone = product / (square + ridge * n);
      effect.explains = (2 * alone * product - alone * alone * square) / total;
    }
    out.effects.push_back(effect);
  }
  std::stable_sort(
      out.effects.begin(), out.effects.end(),
      [](const IngredientEffect& a, const IngredientEffect& b) { return a.explains > b.explains; });
  return out;
}

}  // namespace trainyard
