// Small dense systems of equations, for regressions and fits with a few dozen unknowns.
#pragma once

#include <vector>

namespace trainyard {

using Matrix = std::vector<std::vector<double>>;  // [row][column]

/// x of A x = b for a symmetric positive definite A, by Cholesky's decomposition. A column whose
/// pivot is not positive (it depends on earlier ones) has x = 0.
std::vector<double> solve_positive_definite(Matrix a, std::vector<double> b);

/// x that minimises |A x - b|^2 + ridge |x|^2. `ridge` > 0 makes the answer unique.
std::vector<double> ridge_solution(const Matrix& a, const std::vector<double>& b, double ridge);

}  // namespace trainyard
