#include "calibrate/validate/robust_fit.h"

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"

namespace trainyard {

namespace {

struct Normal {
  Matrix matrix;              // J^T W J
  std::vector<double> right;  // -J^T W r
};

double prior_loss(const std::vector<double>& parameters, const std::vector<Prior>& priors) {
  double loss = 0;
  for (std::size_t p = 0; p < priors.size(); ++p) {
    const double residual = (parameters[p] - priors[p].center) * priors[p].weight;
    loss += residual * residual / 2;
  }
  return loss;
}

void add_priors(Normal& normal, const std::vector<double>& parameters,
                const std::vector<Prior>& priors) {
  for (std::size_t p = 0; p < priors.size(); ++p) {
    if (normal.matrix[p][p] == 0) continue;  // no residual depends on it
    const double square = priors[p].weight * priors[p].weight;
    normal.matrix[p][p] += square;
    normal.right[p] -= square * (parameters[p] - priors[p].center);
  }
}

Normal normal_equations(const Matrix& jacobian, const std::vector<double>& residuals,
                        const std::vector<double>& weights) {
  const std::size_t n = jacobian.empty() ? 0 : jacobian.front().size();
  Normal out{Matrix(n, std::vector<double>(n, 0)), std::vector<double>(n, 0)};
  for (std::size_t row = 0; row < jacobian.size(); ++row) {
    for (std::size_t i = 0; i < n; ++i) {
      if (jacobian[row][i] == 0) continue;
      const double scaled = weights[row] * jacobian[row][i];
      out.right[i] -= scaled * residuals[row];
      for (std::size_t j = 0; j < n; ++j) out.matrix[i][j] += scaled * jacobian[row][j];
    }
  }
  return out;
}

/// The point that the damped normal equations lead to from `at`. Those not `free` stay; one that
/// comes to a bound stops there, and the others are solved for again.
std::vector<double> bounded_step(const Normal& normal, double damping,
                                 const std::vector<double>& at, std::vector<bool> free,
                                 const std::vector<Bounds>& bounds) {
  std::vector<double> point = at;
  for (std::size_t round = 0; round <= at.size(); ++round) {
    std::vector<std::size_t> index;
    for (std::size_t i = 0; i < at.size(); ++i) {
      if (free[i]) index.push_back(i);
    }
    Matrix matrix(index.size(), std::vector<double>(index.size()));
    std::vector<double> right(index.size());
    for (std::size_t i = 0; i < index.size(); ++i) {
      right[i] = normal.right[index[i]];
      // What has been stopped moves too, by as much as it could.
      for (std::size_t k = 0; k < at.size(); ++k) {
        if (!free[k]) right[i] -= normal.matrix[index[i]][k] * (point[k] - at[k]);
      }
      for (std::size_t j = 0; j < index.size(); ++j)
        matrix[i][j] = normal.matrix[index[i]][index[j]];
      matrix[i][i] *= 1 + damping;
    }
    const std::vector<double> step = solve_positive_definite(std::move(matrix), std::move(right));
    bool stopped = false;
    for (std::size_t i = 0; i < index.size(); ++i) {
      const std::size_t k = index[i];
      const double to = at[k] + step[i];
      point[k] = std::clamp(to, bounds[k].low, bounds[k].high);
      if (point[k] == to) continue;
      free[k] = false;
      stopped = true;
    }
    if (!stopped) break;
  }
  return point;
}

std::vector<double> weights_of(const std::vector<double>& residuals, double threshold) {
  std::vector<double> weights;
  weights.reserve(residuals.size());
  for (const double residual : residuals) weights.push_back(huber_weight(residual, threshold));
  return weights;
}

/// Broyden's update: the least change of each row with which `step` explains what its residual did.
/// What a residual does not depend on stays so.
void update(Matrix& jacobian, const std::vector<double>& step, const std::vector<double>& before,
            const std::vector<double>& after) {
  for (std::size_t row = 0; row < jacobian.size(); ++row) {
    double square = 0;
    double missing = after[row] - before[row];
    for (std::size_t k = 0; k < step.size(); ++k) {
      if (jacobian[row][k] == 0) continue;
      square += step[k] * step[k];
      missing -= jacobian[row][k] * step[k];
    }
    for (std::size_t k = 0; k < step.size() && square > 0; ++k) {
      if (jacobian[row][k] != 0) jacobian[row][k] += missing * step[k] / square;
    }
  }
}

/// By how much the weighted squares that the equations are of become less.
double promised_gain(const Normal& normal, const std::vector<double>& at,
                     const std::vector<double>& point) {
  double gain = 0;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double step = point[i] - at[i];
    gain += step * normal.right[i];
    for (std::size_t j = 0; j < at.size(); ++j)
      gain -= step * normal.matrix[i][j] * (point[j] - at[j]) / 2;
  }
  return gain;
}

/// Moves `fit` by the first step that lowers its loss, with more and more damping, and updates the
/// Jacobian by what came of it. By how much it is lower; 0: no step is, or none promises to be.
double one_step(FitResult& fit, double& damping, const std::vector<bool>& free,
                const std::vector<Bounds>& bounds, const Residuals& residuals,
                const FitOptions& options) {
  constexpr double kMostDamping = 1e6;
  Normal normal =
      normal_equations(fit.jacobian, fit.residuals, weights_of(fit.residuals, options.threshold));
  add_priors(normal, fit.parameters, options.priors);
  for (; damping <= kMostDamping; damping *= 8) {
    const std::vector<double> point = bounded_step(normal, damping, fit.parameters, free, bounds);
    if (promised_gain(normal, fit.parameters, point) < options.least_gain * fit.loss / 2) break;
    std::vector<double> there = residuals(point);
    check(there.size() == fit.residuals.size(), "as many residuals everywhere");
    const double loss = huber_loss(there, options.threshold) + prior_loss(point, options.priors);
    if (!(loss < fit.loss)) continue;
    std::vector<double> step = point;
    for (std::size_t k = 0; k < step.size(); ++k) step[k] -= fit.parameters[k];
    update(fit.jacobian, step, fit.residuals, there);
    const double gain = fit.loss - loss;
    fit.parameters = point;
    fit.residuals = std::move(there);
    fit.loss = loss;
    damping /= 4;
    return gain;
  }
  damping = 1e-3;
  return 0;
}

}  // namespace

double huber_weight(double residual, double threshold) {
  const double size = std::abs(residual);
  return size <= threshold ? 1 : threshold / size;
}

double huber_loss(const std::vector<double>& residuals, double threshold) {
  double loss = 0;
  for (const double residual : residuals) {
    const double size = std::abs(residual);
    loss += size <= threshold ? size * size / 2 : threshold * (size - threshold / 2);
  }
  return loss;
}

FitResult robust_fit(std::vector<double> start, const std::vector<Bounds>& bounds,
                     const Residuals& residuals, const Jacobian& jacobian,
                     const FitOptions& options) {
  check(start.size() == bounds.size(), "bounds for each parameter");
  check(options.priors.empty() || options.priors.size() == start.size(), "a prior for each");
  FitResult fit;
  fit.parameters = std::move(start);
  fit.residuals = residuals(fit.parameters);
  fit.loss =
      huber_loss(fit.residuals, options.threshold) + prior_loss(fit.parameters, options.priors);
  if (fit.parameters.empty()) return fit;
  if (options.improved) options.improved(fit);
  const std::vector<bool> all(fit.parameters.size(), true);
  double damping = 1e-3;
  bool exact = false;  // the Jacobian is the one at the parameters, not a guess
  while (fit.iterations < options.max_iterations) {
    if (fit.jacobian.empty()) {
      fit.jacobian = jacobian(fit.parameters, fit.residuals);
      exact = true;
    }
    ++fit.iterations;
    const double gain = one_step(fit, damping, all, bounds, residuals, options);
    if (gain > 0 && options.improved) options.improved(fit);
    if (options.progress) options.progress(fit.iterations, fit.loss);
    const bool goes_on = gain > options.least_gain * (fit.loss + gain);
    if (!goes_on && exact) {
      if (gain > 0) fit.jacobian.clear();
      break;
    }
    // A guess that leads nowhere gives way to the exact Jacobian.
    if (!goes_on) fit.jacobian.clear();
    exact = false;
  }
  if (fit.jacobian.empty() || !exact) fit.jacobian = jacobian(fit.parameters, fit.residuals);
  return fit;
}

std::vector<double> newton_step(const std::vector<double>& at, const std::vector<Bounds>& bounds,
                                const std::vector<double>& residuals, const Matrix& jacobian,
                                const FitOptions& options) {
  if (jacobian.empty()) return at;
  Normal normal = normal_equations(jacobian, residuals, weights_of(residuals, options.threshold));
  add_priors(normal, at, options.priors);
  return bounded_step(normal, 0, at, std::vector<bool>(at.size(), true), bounds);
}

}  // namespace trainyard
