// The fit: known minima of small problems, bounds, and outliers that do not count for more than
// they are.
#include "calibrate/validate/robust_fit.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace trainyard::robust_fit_test {

namespace {

/// y = a + b x at x = 0, 1, 2, 3, with the given residual function's data.
struct Line {
  std::vector<double> y;
  std::vector<double> residuals(const std::vector<double>& p) const {
    std::vector<double> out;
    for (std::size_t x = 0; x < y.size(); ++x)
      out.push_back(p[0] + p[1] * static_cast<double>(x) - y[x]);
    return out;
  }
  Matrix jacobian() const {
    Matrix out;
    for (std::size_t x = 0; x < y.size(); ++x) out.push_back({1, static_cast<double>(x)});
    return out;
  }
  FitResult fit(const std::vector<double>& start, const std::vector<Bounds>& bounds,
                const FitOptions& options) const {
    return robust_fit(
        start, bounds, [&](const auto& p) { return residuals(p); },
        [&](const auto&, const auto&) { return jacobian(); }, options);
  }
};

const std::vector<Bounds> kWide = {{-100, 100}, {-100, 100}};
const FitOptions kExact{0.1, 60, 1e-14, {}, {}};

}  // namespace

TEST_CASE("Huber's loss is quadratic up to its threshold and linear beyond") {
  // 0.05^2 / 2 + 0.1 (0.3 - 0.05) = 0.00125 + 0.025.
  CHECK(huber_loss({0.05, -0.3}, 0.1) == Approx(0.02625));
}

TEST_CASE("an exact line is found") {
  const FitResult fit = Line{{1, 3, 5, 7}}.fit({0, 0}, kWide, kExact);
  CHECK(fit.parameters[0] == Approx(1));
  CHECK(fit.parameters[1] == Approx(2));
  CHECK(fit.loss == Approx(0).margin(1e-12));
}

TEST_CASE("a bound stops a parameter and the other one makes up for it") {
  // With b at most 1: the a that minimises sum (a + x - (1 + 2x))^2 is 1 + mean(x) = 2.5; residuals
  // are below the threshold of 10, so the loss is quadratic.
  const FitResult fit =
      Line{{1, 3, 5, 7}}.fit({0, 0}, {{-100, 100}, {-1, 1}}, {10, 60, 1e-14, {}, {}});
  CHECK(fit.parameters[1] == 1);
  CHECK(fit.parameters[0] == Approx(2.5));
}

TEST_CASE("one outlier does not carry the fit away") {
  // A constant: of residuals a, a, a, a - 9 with threshold 0.1 the three pull back with 3 a, the
  // outlier with 0.1 at most: a = 0.1 / 3. Least squares would say 9 / 4.
  const auto residuals = [](const std::vector<double>& p) {
    return std::vector<double>{p[0], p[0], p[0], p[0] - 9};
  };
  const Matrix ones(4, std::vector<double>(1, 1));
  const FitResult fit = robust_fit(
      {1}, {{-50, 50}}, residuals, [&](const auto&, const auto&) { return Matrix(ones); }, kExact);
  CHECK(fit.parameters[0] == Approx(0.1 / 3).epsilon(1e-4));
}

TEST_CASE("a curved problem converges, its Jacobian is the one at the answer") {
  // exp(p x) through (1, e), (2, e^2): p = 1; derivatives there x exp(x).
  const auto residuals = [](const std::vector<double>& p) {
    return std::vector<double>{std::exp(p[0]) - std::exp(1), std::exp(2 * p[0]) - std::exp(2)};
  };
  const auto jacobian = [](const std::vector<double>& p, const std::vector<double>&) {
    return Matrix{{std::exp(p[0])}, {2 * std::exp(2 * p[0])}};
  };
  const FitResult fit = robust_fit({0.2}, {{0, 3}}, residuals, jacobian, {100, 60, 1e-14, {}, {}});
  CHECK(fit.parameters[0] == Approx(1).epsilon(1e-6));
  CHECK(fit.jacobian[1][0] == Approx(2 * std::exp(2)).epsilon(1e-5));
}

TEST_CASE("a prior pulls like one more residual, however far away it is") {
  // Residuals a, a, a (threshold 10: quadratic), prior 9 with weight 2: 3 a + 4 (a - 9) = 0, a = 36
  // / 7. Loss: 3 a^2 / 2 + 4 (a - 9)^2 / 2 = 39.67 + 29.76 = 69.43; the pull of 2 x 3.86 is beyond
  // a threshold of 1 and counts in full.
  const auto residuals = [](const std::vector<double>& p) {
    return std::vector<double>{p[0], p[0], p[0]};
  };
  const Matrix ones(3, std::vector<double>(1, 1));
  const auto fit = [&](double threshold) {
    return robust_fit({1}, {{-50, 50}}, residuals,
                      [&](const auto&, const auto&) { return Matrix(ones); },
                      {threshold, 60, 1e-14, {}, {{9, 2}}});
  };
  CHECK(fit(10).parameters[0] == Approx(36.0 / 7));
  CHECK(fit(10).loss == Approx(69.4286).epsilon(1e-5));
  // Three residuals of slope 1 at most against 4 (a - 9): a = 9 - 3 / 4.
  CHECK(fit(1).parameters[0] == Approx(8.25).epsilon(1e-4));
}

TEST_CASE("a parameter that nothing depends on stays where it was") {
  const auto residuals = [](const std::vector<double>& p) { return std::vector<double>{p[0] - 1}; };
  const FitResult fit = robust_fit(
      {0, 7}, kWide, residuals,
      [](const auto&, const auto&) {
        return Matrix{{1, 0}};
      },
      kExact);
  CHECK(fit.parameters[0] == Approx(1));
  CHECK(fit.parameters[1] == 7);
}

TEST_CASE("a Jacobian that is only about right leads there too, by updates") {
  // exp(p) = e and exp(2 p) = e^2 with derivatives half and twice as large as they are.
  const auto residuals = [](const std::vector<double>& p) {
    return std::vector<double>{std::exp(p[0]) - std::exp(1), std::exp(2 * p[0]) - std::exp(2)};
  };
  const auto jacobian = [](const auto&, const auto&) {
    return Matrix{{0.5 * std::exp(1)}, {4 * std::exp(2)}};
  };
  const FitResult fit = robust_fit({0.7}, {{0, 3}}, residuals, jacobian, {100, 60, 1e-12, {}, {}});
  CHECK(fit.parameters[0] == Approx(1).epsilon(1e-3));
}

}  // namespace trainyard::robust_fit_test
