// What clipping makes of a gradient, from the squared norm of all gradients: optimizers ask, and
// whoever decides whether an update that was made without it was right.
#pragma once

#include <algorithm>
#include <cmath>

#include "real/kernels/kernel.h"

namespace trainyard {

/// torch.nn.utils.clip_grad_norm_'s: keeps the quotient finite.
inline constexpr double kClipEps = 1e-6;

/// Factor on gradients that are loss_scale times too large; 1: not clipped. `norm_sq` is finite.
inline double clip_factor(double norm_sq, const StepState& state) {
  if (state.clip_norm == 0) return 1;
  const double norm = std::sqrt(norm_sq) * (1.0 / state.loss_scale);
  return std::min(1.0, state.clip_norm / (norm + kClipEps));
}

/// Whether the update of a step takes its gradients as they are.
inline bool is_valid(double norm_sq, const StepState& state) {
  return std::isfinite(norm_sq) && clip_factor(norm_sq, state) == 1;
}

}  // namespace trainyard
