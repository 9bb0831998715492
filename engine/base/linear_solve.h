// Small dense systems of equations, for regressions and fits with a few dozen unknowns.
#pragma once

#include <vector>

namespace trainyard {

using Matrix = std::vector<std::vector<double>>;  // [row][column]

/// The lower triangle L with A = L L^T, of a symmetric positive definite A (whose upper triangle is
/// left as it is). A row of L whose pivot would not be positive (it depends on earlier ones) takes
/// no part: its pivot is 0.
void factorise(Matrix& a);

/// x of L x = b, in place.
void solve_lower(const Matrix& factor, std::vector<double>& b);

/// x of L L^T x = b.
std::vector<double> solve_factored(const Matrix& factor, std::vector<double> b);

/// x of A x = b for a symmetric positive definite A, by Cholesky's decomposition. A column whose
/// pivot is not positive (it depends on earlier ones) has x = 0.
std::vector<double> solve_positive_definite(Matrix a, std::vector<double> b);

/// x that minimises |A x - b|^2 + ridge |x|^2. `ridge` > 0 makes the answer unique.
std::vector<double> ridge_solution(const Matrix& a, const std::vector<double>& b, double ridge);

/// x >= 0 that minimises |A x - b|^2, of at most a handful of unknowns: every subset of them is
/// tried. Of answers that are as good to 1e-9 that with the fewest unknowns, the first ones first.
std::vector<double> non_negative_solution(const Matrix& a, const std::vector<double>& b);

}  // namespace trainyard
