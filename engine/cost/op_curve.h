// The measured curve of one kernel form (kernel_form.h): points of shapes and seconds, and what
// they say of a shape between them.
//
// Two layers. A base, seconds = startup + a FLOP + b bytes with no term negative, is fitted to the
// points by least squares of the relative error: it carries the trend, and what lies beyond the
// points. Between them, ln(measured / base) is interpolated by kriging (Matern 3/2 over the
// logarithms of the shape's axes, each point's interval as its noise; Rasmussen and Williams 2006,
// chapters 2 and 5), so that the curve goes through points that are exact and past those that are
// not.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/base/linear_solve.h"
#include "engine/base/units.h"
#include "engine/cost/kernel_work.h"

namespace trainyard {

/// One shape of a kernel as it was timed.
struct CurvePoint {
  std::array<std::int64_t, 4> shape = {1, 1, 1, 1};  // m, n, k, batch: as KernelWork has them
  Flop flop = 0;
  Bytes bytes = 0;
  Seconds time = 0;     // median, > 0
  double interval = 0;  // half of the median's 90 % interval, over the time
};

class OpCurve {
 public:
  struct Estimate {
    Seconds time = 0;
    double interval = 0;  // half of a 90 % interval, over the time
    double doubt = 0;     // expected relative error, what the curve's bend there adds included
    double beyond =
        0;  // doublings by which an axis lies outside the points', the largest of the axes
    bool extrapolated = false;  // beyond > 1 %
  };

  /// `points`: at least one.
  explicit OpCurve(std::vector<CurvePoint> points);

  Estimate at(const KernelWork& work) const;
  const std::vector<CurvePoint>& points() const { return points_; }
  /// startup, seconds per FLOP, seconds per byte.
  const std::array<double, 3>& base() const { return base_; }
  /// ln(predicted / measured) of each point, predicted from the others (with the same base and
  /// length).
  const std::vector<double>& left_out() const { return left_out_; }

 private:
  using Axes = std::array<double, 4>;  // log2 of the shape

  Seconds base_time(Flop flop, Bytes bytes) const;
  double similarity(const Axes& a, const Axes& b) const;
  void fit_base();
  void fit_residuals();
  double try_length(double length, double deviation);

  std::vector<CurvePoint> points_;
  std::vector<Axes> axes_;
  Axes least_{}, most_{};
  std::array<double, 3> base_{};
  double length_ = 1,
         variance_ = 0;            // of the residuals' correlation, in doublings; of the residuals
  std::vector<double> residuals_;  // ln(measured / base)
  Matrix factor_;                  // Cholesky's, of the points' covariance
  std::vector<double> weights_;    // covariance^-1 residuals
  std::vector<double> left_out_;
};

}  // namespace trainyard
