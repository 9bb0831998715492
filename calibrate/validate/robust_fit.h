// A bounded, robust least-squares fit of a few parameters to many residuals that are costly to
// compute.
#pragma once

#include <functional>
#include <vector>

#include "engine/base/linear_solve.h"

namespace trainyard {

struct Bounds {
  double low = 0;
  double high = 0;
};

/// sum over residuals of Huber's loss: r^2 / 2 up to `threshold`, threshold (|r| - threshold / 2)
/// beyond.
double huber_loss(const std::vector<double>& residuals, double threshold);

/// min(1, threshold / |residual|): what a residual counts.
double huber_weight(double residual, double threshold);

/// What is known of a parameter before the fit: (parameter - center) * weight is one more residual,
/// never an outlier; a parameter that no residual depends on stays where it was all the same. For a
/// belief of standard deviation d, among residuals of standard deviation r, weight = r / d.
struct Prior {
  double center = 0;
  double weight = 0;
};

struct FitOptions {
  double threshold = 0.1;  // of Huber's loss
  int max_iterations = 15;
  double least_gain = 1e-3;  // a step that lowers the loss by less, relatively, is the last
  std::function<void(int iteration, double loss)> progress;  // after each iteration; may be empty
  std::vector<Prior> priors;                                 // one for each parameter, or none
  std::function<void(const struct FitResult&)> improved =
      {};  // of the start, and after each step that lowered the loss
};

struct FitResult {
  std::vector<double> parameters;
  std::vector<double> residuals;  // there
  Matrix jacobian;                // [residual][parameter], there
  double loss = 0;                // with that of the priors
  int iterations = 0;
};

using Residuals = std::function<std::vector<double>(const std::vector<double>&)>;
using Jacobian =
    std::function<Matrix(const std::vector<double>&, const std::vector<double>& residuals)>;

/// Levenberg-Marquardt with Huber's weights min(1, threshold / |r|):
///
///   (J^T W J + lambda diag(J^T W J)) step = -J^T W r
///
/// Priors are rows of J with W = 1.
/// Between exact Jacobians, which cost one set of residuals per parameter, Broyden's updates are
/// used; only a step from an exact one that gains too little ends the fit. A parameter that a step
/// would take out of its bounds stops there, and the others' step is computed again without it. The
/// number of residuals must not change. `start` lies within the bounds.
FitResult robust_fit(std::vector<double> start, const std::vector<Bounds>& bounds,
                     const Residuals& residuals, const Jacobian& jacobian,
                     const FitOptions& options = {});

/// Where one step without damping leads from `at`, whose residuals and Jacobian these are: the fit,
/// were it linear. A parameter that no residual depends on stays.
std::vector<double> newton_step(const std::vector<double>& at, const std::vector<Bounds>& bounds,
                                const std::vector<double>& residuals, const Matrix& jacobian,
                                const FitOptions& options);

}  // namespace trainyard
