// A causal depthwise convolution and its silu on a GPU, without LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/base/dtype.h"
#include "real/cuda/some_numbers.h"

namespace trainyard {

/// x [batch, tokens, channels]; weights [channels, width].
struct CausalConvShape {
  std::int64_t batch = 0, tokens = 0, channels = 0, width = 0;
};

/// Whether registers hold as many tokens.
bool causal_conv1d_fits(std::int64_t width);

/// y = silu(b + sum of the latest tokens' x times w, the last of which is the token's own).
cudaError_t launch_causal_conv1d(DType type, const void* x, const SomeNumbers& weight,
                                 const SomeNumbers& bias, void* y, const CausalConvShape& shape,
                                 cudaStream_t stream);

/// Parts of sequences, each of which has [width + 1, channels] of launch_causal_conv1d_b's
/// `partial`: fp64 for fp64, else fp32.
std::int64_t causal_conv1d_partials(const CausalConvShape& shape);

struct CausalConvGradient {
  const void *dy = nullptr, *x = nullptr;
  SomeNumbers weight, bias;
  void* dx = nullptr;  // null: not wanted
  SomeNumbers dw, db;  // added to
  void* partial = nullptr;
};
cudaError_t launch_causal_conv1d_b(DType type, const CausalConvGradient& of,
                                   const CausalConvShape& shape, cudaStream_t stream);

}  // namespace trainyard
