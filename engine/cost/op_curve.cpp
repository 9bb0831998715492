#include "engine/cost/op_curve.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/error.h"

namespace trainyard {

namespace {

constexpr double kSigmasOfInterval = 1.645;  // half of a normal distribution's 90 % interval
constexpr double kLeastNoise = 0.003;        // relative; keeps points that lie together apart
constexpr double kAxisSlack = 0.015;         // of a doubling, 1 %: rounding is not extrapolation

std::array<double, 4> axes_of(const std::array<std::int64_t, 4>& shape) {
  std::array<double, 4> axes{};
  for (std::size_t i = 0; i < axes.size(); ++i)
    axes[i] = std::log2(static_cast<double>(std::max<std::int64_t>(shape[i], 1)));
  return axes;
}

/// Matern 3/2: (1 + r) exp(-r), r = sqrt(3) distance / length.
double matern(const std::array<double, 4>& a, const std::array<double, 4>& b, double length) {
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  const double r = std::sqrt(3 * squares) / length;
  return (1 + r) * std::exp(-r);
}

}  // namespace

OpCurve::OpCurve(std::vector<CurvePoint> points) : points_(std::move(points)) {
  check(!points_.empty(), "a curve has points");
  for (const CurvePoint& point : points_) {
    check(point.time > 0, "a kernel takes time");
    axes_.push_back(axes_of(point.shape));
  }
  least_ = most_ = axes_.front();
  for (const Axes& axes : axes_) {
    for (std::size_t i = 0; i < axes.size(); ++i) {
      least_[i] = std::min(least_[i], axes[i]);
      most_[i] = std::max(most_[i], axes[i]);
    }
  }
  fit_base();
  fit_residuals();
}

void OpCurve::fit_base() {
  Matrix rows;
  for (const CurvePoint& point : points_) {
    rows.push_back(
        {static_cast<double>(point.bytes) / point.time, point.flop / point.time, 1 / point.time});
  }
  // A curve of one point grows with its bytes, of two may have a startup beside them.
  const std::vector<double> x = non_negative_solution(rows, std::vector<double>(points_.size(), 1));
  base_ = {x[2], x[1], x[0]};
}

Seconds OpCurve::base_time(Flop flop, Bytes bytes) const {
  return base_[0] + base_[1] * flop + base_[2] * static_cast<double>(bytes);
}

double OpCurve::similarity(const Axes& a, const Axes& b) const { return matern(a, b, length_); }

/// Log likelihood of the residuals, up to a constant; leaves factor_ and weights_ of this choice
/// behind.
double OpCurve::try_length(double length, double deviation) {
  const std::size_t n = points_.size();
  length_ = length;
  variance_ = deviation * deviation;
  factor_.assign(n, std::vector<double>(n));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j)
      factor_[i][j] = factor_[j][i] = variance_ * similarity(axes_[i], axes_[j]);
    const double noise = std::max(points_[i].interval / kSigmasOfInterval, kLeastNoise);
    factor_[i][i] += noise * noise;
  }
  factorise(factor_);
  weights_ = solve_factored(factor_, residuals_);
  double likelihood = 0;
  for (std::size_t i = 0; i < n; ++i)
    likelihood -= 0.5 * residuals_[i] * weights_[i] + std::log(factor_[i][i]);
  return likelihood;
}

void OpCurve::fit_residuals() {
  const std::size_t n = points_.size();
  double squares = 0;
  for (const CurvePoint& point : points_) {
    residuals_.push_back(std::log(point.time / base_time(point.flop, point.bytes)));
    squares += residuals_.back() * residuals_.back();
  }
  // Points that the base meets by having as many terms as they are say nothing of what lies between
  // them.
  constexpr double kLeastDeviation = 0.02;
  const double spread = std::max(std::sqrt(squares / static_cast<double>(n)), kLeastDeviation);
  double best = -1e300, best_length = 2, best_deviation = spread;
  for (const double length : {1.0, 2.0, 4.0, 8.0}) {
    for (const double deviation : {spread / 2, spread, 2 * spread}) {
      const double likelihood = try_length(length, deviation);
      if (likelihood <= best) continue;
      best = likelihood;
      best_length = length;
      best_deviation = deviation;
    }
  }
  try_length(best_length, best_deviation);
  // Rasmussen and Williams 2006, equation 5.12: predicted - measured of point i = -weights_i /
  // (K^-1)_ii.
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<double> unit(n, 0);
    unit[i] = 1;
    solve_lower(factor_, unit);
    double inverse = 0;
    for (const double value : unit) inverse += value * value;
    left_out_.push_back(-weights_[i] / inverse);
  }
}

OpCurve::Estimate OpCurve::at(const KernelWork& work) const {
  const Axes axes = axes_of({work.m, work.n, work.k, work.batch});
  Estimate estimate;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    estimate.beyond = std::max({estimate.beyond, least_[i] - axes[i], axes[i] - most_[i]});
  }
  estimate.extrapolated = estimate.beyond > kAxisSlack;
  std::vector<double> covariance(points_.size());
  double residual = 0, bend = 0, similar = 0, nearest = 0;
  for (std::size_t i = 0; i < points_.size(); ++i) {
    const double like = similarity(axes, axes_[i]);
    covariance[i] = variance_ * like;
    residual += covariance[i] * weights_[i];
    // A bend is felt within a doubling or so, however long the curve is straight elsewhere.
    const double close = matern(axes, axes_[i], 1);
    bend += close * left_out_[i] * left_out_[i];
    similar += close;
    nearest = std::max(nearest, close);
  }
  estimate.time = base_time(work.flop, work.bytes) * std::exp(residual);
  solve_lower(factor_, covariance);
  double variance = variance_;
  for (const double value : covariance) variance -= value * value;
  variance = std::max(variance, 0.0);
  estimate.interval = kSigmasOfInterval * std::sqrt(variance);
  const double local = similar > 0 ? bend / similar : 0;
  estimate.doubt = std::sqrt(variance + local * (1 - nearest));
  return estimate;
}

}  // namespace trainyard
