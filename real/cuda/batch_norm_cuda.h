// Batch norms of images on a GPU, without LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/base/dtype.h"
#include "real/cuda/some_numbers.h"

namespace trainyard {

/// x [groups, samples, channels, pixels]; statistics [groups, 2, channels], in fp64 for fp64, else
/// fp32: mean and 1 / deviation.
struct BatchNormShape {
  std::int64_t groups = 1, samples = 0, channels = 0, pixels = 0;
  double eps = 0;
};

/// Numbers in fp64 that both ways need for themselves.
std::int64_t batch_norm_scratch(const BatchNormShape& shape);

cudaError_t launch_batch_norm(DType type, const void* x, const SomeNumbers& weight,
                              const SomeNumbers& bias, void* y, void* statistics, double* scratch,
                              const BatchNormShape& shape, cudaStream_t stream);

struct BatchNormGradient {
  const void *dy = nullptr, *x = nullptr, *statistics = nullptr;
  SomeNumbers weight;
  void* dx = nullptr;  // null: not wanted
  SomeNumbers dw, db;  // added to
  /// Where there are some, `share` of the groups' means and of their unbiased variances is added.
  SomeNumbers mean, variance;
  double share = 0;
  double* scratch = nullptr;
};
cudaError_t launch_batch_norm_b(DType type, const BatchNormGradient& of,
                                const BatchNormShape& shape, cudaStream_t stream);

}  // namespace trainyard
