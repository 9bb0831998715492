#include "engine/base/linear_solve.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "engine/base/error.h"

namespace trainyard {

void factorise(Matrix& a) {
  const std::size_t n = a.size();
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
}

void solve_lower(const Matrix& factor, std::vector<double>& b) {
  for (std::size_t i = 0; i < b.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= factor[i][k] * b[k];
    b[i] = factor[i][i] == 0 ? 0 : b[i] / factor[i][i];
  }
}

std::vector<double> solve_factored(const Matrix& factor, std::vector<double> b) {
  solve_lower(factor, b);
  for (std::size_t i = b.size(); i-- > 0;) {
    for (std::size_t k = i + 1; k < b.size(); ++k) b[i] -= factor[k][i] * b[k];
    b[i] = factor[i][i] == 0 ? 0 : b[i] / factor[i][i];
  }
  return b;
}

std::vector<double> solve_positive_definite(Matrix a, std::vector<double> b) {
  check(a.size() == b.size(), "a square system");
  factorise(a);
  return solve_factored(a, std::move(b));
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

namespace {

double squared_error(const Matrix& a, const std::vector<double>& x, const std::vector<double>& b) {
  double error = 0;
  for (std::size_t row = 0; row < a.size(); ++row) {
    double sum = -b[row];
    for (std::size_t i = 0; i < x.size(); ++i) sum += a[row][i] * x[i];
    error += sum * sum;
  }
  return error;
}

/// The least squares over the unknowns whose bits are set; the others are 0. Columns are brought to
/// the same size, so that the ridge, which keeps dependent ones apart, weighs nothing.
std::vector<double> subset_solution(const Matrix& a, const std::vector<double>& b,
                                    unsigned subset) {
  constexpr double kRidge = 1e-12;
  const std::size_t n = a.front().size();
  std::vector<std::size_t> columns;
  std::vector<double> sizes;
  for (std::size_t i = 0; i < n; ++i) {
    if ((subset >> i & 1U) == 0) continue;
    double size = 0;
    for (const auto& row : a) size = std::max(size, std::abs(row[i]));
    columns.push_back(i);
    sizes.push_back(size > 0 ? size : 1);
  }
  Matrix part(a.size(), std::vector<double>(columns.size()));
  for (std::size_t row = 0; row < a.size(); ++row) {
    for (std::size_t i = 0; i < columns.size(); ++i) part[row][i] = a[row][columns[i]] / sizes[i];
  }
  const std::vector<double> scaled = ridge_solution(part, b, kRidge);
  std::vector<double> x(n, 0);
  for (std::size_t i = 0; i < columns.size(); ++i) x[columns[i]] = scaled[i] / sizes[i];
  return x;
}

}  // namespace

std::vector<double> non_negative_solution(const Matrix& a, const std::vector<double>& b) {
  check(!a.empty() && a.size() == b.size(), "an equation per row, and at least one");
  const std::size_t n = a.front().size();
  std::vector<unsigned> subsets;
  for (unsigned subset = 1; subset < 1U << n; ++subset) subsets.push_back(subset);
  std::stable_sort(subsets.begin(), subsets.end(),
                   [](unsigned x, unsigned y) { return std::popcount(x) < std::popcount(y); });
  std::vector<double> best(n, 0);
  double least = squared_error(a, best, b);
  for (const unsigned subset : subsets) {
    std::vector<double> x = subset_solution(a, b, subset);
    if (std::any_of(x.begin(), x.end(), [](double value) { return value < 0; })) continue;
    const double error = squared_error(a, x, b);
    if (error >= least * (1 - 1e-9) - 1e-15) continue;
    least = error;
    best = std::move(x);
  }
  return best;
}

}  // namespace trainyard
