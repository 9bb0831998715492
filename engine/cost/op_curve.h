// The measured curve of one family of kernels (kernel_form.h): points of forms, shapes and seconds,
// and what they say of a shape between them.
//
// Two layers. A base, seconds = startup + a FLOP + b bytes with no term negative, is fitted to the
// points by least squares of the relative error: it carries the trend, and what lies beyond the
// points. Between them, ln(measured / base) is interpolated by kriging (Matern 3/2 over the
// logarithms of the shape's axes and over what tells the forms of a family apart, each point's
// interval as its noise; Rasmussen and Williams 2006, chapters 2 and 5), so that the curve goes
// through points that are exact and past those that are not. How far a point is heard, along shapes
// and across forms, and how noisy points are at least, is what makes the points likeliest.
//
// Forms of a family are heard by each other: a form that was timed at two shapes bends as its
// siblings do.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/base/linear_solve.h"
#include "engine/base/units.h"
#include "engine/graph/kernel_work.h"

namespace trainyard {

/// One shape of a kernel as it was timed.
struct CurvePoint {
  KernelForm form;
  std::array<std::int64_t, 4> shape = {1, 1, 1, 1};  // m, n, k, batch: as KernelWork has them
  Flop flop = 0;
  Bytes bytes = 0;
  Seconds time = 0;     // median, > 0
  double interval = 0;  // half of the median's 90 % interval, over the time
};

/// At most `most` (> 1) of the points: in the order of form and shape, evenly many left out.
std::vector<CurvePoint> spread_over(std::vector<CurvePoint> points, std::size_t most);

class OpCurve {
 public:
  /// Expected relative error for each doubling beyond the points.
  static constexpr double kBeyondDoubt = 0.15;

  struct Estimate {
    Seconds time = 0;
    double interval = 0;  // half of a 90 % interval, over the time: of what another timing would be
    double doubt = 0;     // expected relative error, what the curve's bend there adds included
    double beyond =
        0;  // doublings by which an axis lies outside the points', the largest of the axes
    bool extrapolated = false;  // beyond > 1 %, or no point is of this form
  };

  /// `points`: at least one.
  /// All of one family.
  explicit OpCurve(std::vector<CurvePoint> points);

  Estimate at(const KernelWork& work) const;
  const std::vector<CurvePoint>& points() const { return points_; }
  /// startup, seconds per FLOP, seconds per byte.
  const std::array<double, 3>& base() const { return base_; }
  /// ln(predicted / measured) of each point, predicted from the others (with the same base and
  /// length).
  const std::vector<double>& left_out() const { return left_out_; }
  /// By how much each point misses what the others say of it: |left_out| over the interval that
  /// they give. Of intervals that are honest a tenth is above 1. Empty: too few points to tell.
  std::vector<double> surprises() const;

 private:
  using Axes = std::array<double, 4>;  // log2 of the shape

  /// What the likelihood chooses.
  struct Choice {
    double length = 2;       // of the residuals' correlation, in doublings
    double form_length = 2;  // in differences between forms
    double deviation = 1;    // of the residuals
    double noise = 0;        // of a point at least
  };

  Seconds base_time(Flop flop, Bytes bytes) const;
  void fit_base();
  void fit_residuals();
  void choose();
  void leave_out();
  double similarity(double shape_distance_squared, double form_distance_squared) const;
  double noise_of(const CurvePoint& point) const;
  double likelihood(const Choice& choice);

  std::vector<CurvePoint> points_;
  std::vector<Axes> axes_;
  Axes least_{}, most_{};
  std::array<double, 3> base_{};
  Choice choice_;
  std::vector<double> residuals_;  // ln(measured / base)
  Matrix factor_;                  // Cholesky's, of the points' covariance
  std::vector<double> weights_;    // covariance^-1 residuals
  std::vector<double> left_out_;
  std::vector<double> left_out_deviation_;  // that the others expect of left_out_
  double usual_noise_ = 0;                  // deviation of a point's own timing, the median of them
};

}  // namespace trainyard
