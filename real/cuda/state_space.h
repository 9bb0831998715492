// Ops of state space models on a GPU. All tensors lie there, contiguous, and are of one floating
// type, where nothing else is said.
#pragma once

#include <array>
#include <cstdint>

#include "real/kernels/scan_shape.h"
#include "real/torch.h"

namespace trainyard {

/// Whether weights [C, 1, 1, width] are of a width that the kernels have.
bool causal_conv1d_fits_cuda(const at::Tensor& w);
/// y = silu of the causal convolution of x [B, S, C] with w and b, which are of any floating type.
void causal_conv1d_on_cuda(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b,
                           at::Tensor& y);
/// Adds to dw and db; dx undefined: not wanted.
void causal_conv1d_b_on_cuda(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& w,
                             const at::Tensor& b, at::Tensor dx, at::Tensor dw, at::Tensor db);

/// What chunk_scan reads: the last three, of heads, are of any floating type.
struct ScanReads {
  at::Tensor x, dt, b, c, a_log, dt_bias, d;
};
bool scan_fits_cuda(const ScanShape& shape);
void chunk_scan_on_cuda(const ScanShape& shape, const ScanReads& in, at::Tensor& y);

/// Gradients of what is of tokens are written, sums for a_log, dt_bias and d are added to.
struct ScanGradients {
  at::Tensor x, dt, b, c;
  std::array<at::Tensor, 3> of_heads;
};
void chunk_scan_b_on_cuda(const ScanShape& shape, const at::Tensor& dy, const ScanReads& in,
                          const ScanGradients& out);

}  // namespace trainyard
