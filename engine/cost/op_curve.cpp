#include "engine/cost/op_curve.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <tuple>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/interval.h"

namespace trainyard {

namespace {

constexpr double kLeastNoise = 0.003;  // relative; keeps points that lie together apart
constexpr double kAxisSlack = 0.015;   // of a doubling, 1 %: rounding is not extrapolation

std::array<double, 4> axes_of(const std::array<std::int64_t, 4>& shape) {
  std::array<double, 4> axes{};
  for (std::size_t i = 0; i < axes.size(); ++i)
    axes[i] = std::log2(static_cast<double>(std::max<std::int64_t>(shape[i], 1)));
  return axes;
}

double distance_squared(const std::array<double, 4>& a, const std::array<double, 4>& b) {
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  return squares;
}

/// Matern 3/2: (1 + r) exp(-r), r = sqrt(3) distance, in lengths.
double matern(double squared_distance) {
  const double r = std::sqrt(3 * squared_distance);
  return (1 + r) * std::exp(-r);
}

}  // namespace

std::vector<CurvePoint> spread_over(std::vector<CurvePoint> points, std::size_t most) {
  if (points.size() <= most) return points;
  std::stable_sort(points.begin(), points.end(), [](const CurvePoint& a, const CurvePoint& b) {
    return std::tie(a.form, a.shape) < std::tie(b.form, b.shape);
  });
  std::vector<CurvePoint> out;
  for (std::size_t i = 0; i < most; ++i)
    out.push_back(points[i * (points.size() - 1) / (most - 1)]);
  return out;
}

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
  // Tiny kernels alone say nothing of a rate: no device is slower than this.
  constexpr double kSlowest = 1e-9;  // seconds per byte
  if (base_[2] <= kSlowest) return;
  base_[2] = kSlowest;
  double weights = 0, sum = 0;
  for (const CurvePoint& point : points_) {
    const double rest =
        point.time - base_[1] * point.flop - kSlowest * static_cast<double>(point.bytes);
    sum += rest / point.time / point.time;
    weights += 1 / point.time / point.time;
  }
  base_[0] = std::max(base_[0], sum / weights);
}

Seconds OpCurve::base_time(Flop flop, Bytes bytes) const {
  return base_[0] + base_[1] * flop + base_[2] * static_cast<double>(bytes);
}

/// Three parts: what all forms share at a shape, what a form is off by at all shapes, and what it
/// does there alone.
double OpCurve::similarity(double shape_distance_squared, double form_distance_squared) const {
  constexpr double kShared = 0.4, kOffset = 0.3, kOwn = 0.3;
  const double shapes = matern(shape_distance_squared / (choice_.length * choice_.length));
  const double forms = matern(form_distance_squared / (choice_.form_length * choice_.form_length));
  return kShared * shapes + kOffset * forms + kOwn * shapes * forms;
}

double OpCurve::noise_of(const CurvePoint& point) const {
  return std::max(point.interval / kSigmasOfInterval, choice_.noise);
}

/// Log likelihood of the residuals, up to a constant; leaves factor_ and weights_ of this choice
/// behind.
double OpCurve::likelihood(const Choice& choice) {
  const std::size_t n = points_.size();
  choice_ = choice;
  const double variance = choice.deviation * choice.deviation;
  factor_.assign(n, std::vector<double>(n));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j)
      factor_[i][j] = factor_[j][i] =
          variance * similarity(distance_squared(axes_[i], axes_[j]),
                                form_distance_squared(points_[i].form, points_[j].form));
    const double noise = noise_of(points_[i]);
    factor_[i][i] += noise * noise;
  }
  factorise(factor_);
  weights_ = solve_factored(factor_, residuals_);
  double likelihood = 0;
  for (std::size_t i = 0; i < n; ++i)
    likelihood -= 0.5 * residuals_[i] * weights_[i] + std::log(factor_[i][i]);
  return likelihood;
}

/// One after the other, twice. Of many points a part, spread over them, chooses for all: every
/// choice costs the cube of their number.
void OpCurve::choose() {
  constexpr std::size_t kMany = 120;
  if (points_.size() > kMany) {
    likelihood(OpCurve(spread_over(points_, kMany)).choice_);
    return;
  }
  double squares = 0;
  for (const double residual : residuals_) squares += residual * residual;
  // Points that the base meets by having as many terms as they are say nothing of what lies between
  // them.
  constexpr double kLeastDeviation = 0.02;
  const double spread =
      std::max(std::sqrt(squares / static_cast<double>(points_.size())), kLeastDeviation);
  Choice best{2, 2, spread, kLeastNoise};
  double most = likelihood(best);
  const auto improve = [&](double Choice::*member, std::initializer_list<double> values) {
    for (const double value : values) {
      Choice choice = best;
      choice.*member = value;
      const double found = likelihood(choice);
      if (found <= most) continue;
      most = found;
      best = choice;
    }
  };
  for (int round = 0; round < 2; ++round) {
    // Few points cannot tell noise from a bend; a bend is what they were chosen for.
    constexpr std::size_t kFew = 12;
    if (points_.size() >= kFew) improve(&Choice::noise, {kLeastNoise, 0.02, 0.05, 0.1});
    improve(&Choice::deviation, {spread / 4, spread / 2, spread, 2 * spread});
    improve(&Choice::length, {1, 2, 4, 8});
    improve(&Choice::form_length, {1, 2, 4, 8});
  }
  likelihood(best);
}

void OpCurve::fit_residuals() {
  for (const CurvePoint& point : points_)
    residuals_.push_back(std::log(point.time / base_time(point.flop, point.bytes)));
  choose();
  leave_out();
  std::vector<double> noises;
  for (const CurvePoint& point : points_) noises.push_back(noise_of(point));
  const auto middle = noises.begin() + static_cast<std::ptrdiff_t>(noises.size() / 2);
  std::nth_element(noises.begin(), middle, noises.end());
  usual_noise_ = *middle;
}

/// Rasmussen and Williams 2006, equation 5.12: predicted - measured of point i = -weights_i /
/// (K^-1)_ii, of which the variance is 1 / (K^-1)_ii.
void OpCurve::leave_out() {
  const std::size_t n = points_.size();
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<double> unit(n, 0);
    unit[i] = 1;
    solve_lower(factor_, unit);
    double inverse = 0;
    for (const double value : unit) inverse += value * value;
    left_out_.push_back(-weights_[i] / inverse);
    left_out_deviation_.push_back(1 / std::sqrt(inverse));
  }
}

std::vector<double> OpCurve::surprises() const {
  constexpr std::size_t kFew = 4;
  std::vector<double> out;
  if (points_.size() < kFew) return out;
  for (std::size_t i = 0; i < points_.size(); ++i)
    out.push_back(std::abs(left_out_[i]) / (kSigmasOfInterval * left_out_deviation_[i]));
  return out;
}

OpCurve::Estimate OpCurve::at(const KernelWork& work) const {
  const Axes axes = axes_of({work.m, work.n, work.k, work.batch});
  Estimate estimate;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    estimate.beyond = std::max({estimate.beyond, least_[i] - axes[i], axes[i] - most_[i]});
  }
  estimate.extrapolated = estimate.beyond > kAxisSlack;
  const double all = choice_.deviation * choice_.deviation;
  std::vector<double> covariance(points_.size());
  double residual = 0, bend = 0, similar = 0, nearest = 0;
  bool known = false;
  for (std::size_t i = 0; i < points_.size(); ++i) {
    const double shapes = distance_squared(axes, axes_[i]);
    const double forms = form_distance_squared(work.form, points_[i].form);
    covariance[i] = all * similarity(shapes, forms);
    residual += covariance[i] * weights_[i];
    // A bend is felt within a doubling or so, however long the curve is straight elsewhere.
    const double close = matern(shapes + forms);
    bend += close * left_out_[i] * left_out_[i];
    similar += close;
    nearest = std::max(nearest, close);
    known = known || forms == 0;
  }
  estimate.extrapolated = estimate.extrapolated || !known;
  estimate.time = base_time(work.flop, work.bytes) * std::exp(residual);
  solve_lower(factor_, covariance);
  double variance = all;
  for (const double value : covariance) variance -= value * value;
  variance = std::max(variance, 0.0);
  const double outside = kBeyondDoubt * estimate.beyond;
  estimate.interval =
      kSigmasOfInterval * std::sqrt(variance + usual_noise_ * usual_noise_ + outside * outside);
  const double local = similar > 0 ? bend / similar : 0;
  estimate.doubt = std::sqrt(variance + local * (1 - nearest));
  return estimate;
}

}  // namespace trainyard
