#include "engine/validate/linear_solve.h"

#include <cmath>

#include "engine/base/error.h"

namespace trainyard {

std::vector<double> solve_positive_definite(Matrix a, std::vector<double> b) {
  const std::size_t n = b.size();
  check(a.size() == n, "a square system");
  // a becomes L (lower triangle) with A = L L^T; a row of L with pivot 0 takes no part.
  for (std::size_t j = 0; j < n; ++j) {
    double pivot = a[j][j];
    for (std::size_t k = 0; k < j; ++k) pivot -= a[j][k] * a[j][k];
    const bool dependent = pivot <= 1e-14 * std::abs(a[j][j]);
    a[j][j] = dependent ? 0 : std::sqrt(pivot);
    for (std::size_t i = j + 1; i < n; ++i) {
      double sum = a[i][j];
      for (std::size_t k = 0; k < j; ++k) sum -= a[i][k] * a[j][k];
      a[i][j] = dependent ? 0 : sum / a[j][j];
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= a[i][k] * b[k];
    b[i] = a[i][i] == 0 ? 0 : b[i] / a[i][i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) b[i] -= a[k][i] * b[k];
    b[i] = a[i][i] == 0 ? 0 : b[i] / a[i][i];
  }
  return b;
}

std::vector<double> ridge_solution(const Matrix& a, const std::vector<double>& b, double ridge) {
  check(a.size() == b.size(), "an equation per row");
  const std::size_t n = a.empty() ? 0 : a.front().size();
  Matrix normal(n, std::vector<double>(n, 0));
  std::vector<double> right(n, 0);
  for (std::size_t row = 0; row < a.size(); ++row) {
    for (std::size_t i = 0; i < n; ++i) {
      right[i] += a[row][i] * b[row];
      for (std::size_t j = 0; j < n; ++j) normal[i][j] += a[row][i] * a[row][j];
    }
  }
  for (std::size_t i = 0; i < n; ++i) normal[i][i] += ridge;
  return solve_positive_definite(std::move(normal), std::move(right));
}

}  // namespace trainyard
