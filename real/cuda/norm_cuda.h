// Layer and RMS norms of rows on a GPU, without LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/base/dtype.h"
#include "real/cuda/some_numbers.h"

namespace trainyard {

struct NormShape {
  std::int64_t rows = 0, columns = 0;
  bool has_mean = true;       // else an RMS norm, and statistics of a row are one number
  double eps = 0, shift = 0;  // shift: what is added to the weight
};

/// Whether a row fits the registers of a block; aligned: all tensors of rows to 16 bytes.
bool norm_fits(DType type, std::int64_t columns, bool aligned);

/// y = (x - m) r (w + shift) + b; statistics [rows, 2]: m and r, or [rows, 1]: r; in fp64 for fp64,
/// else fp32. A bias without data is none.
cudaError_t launch_norm(DType type, const void* x, const SomeNumbers& weight,
                        const SomeNumbers& bias, void* y, void* statistics, const NormShape& shape,
                        cudaStream_t stream);

/// Blocks of launch_norm_b, each of which has [2, columns] of `partial` (statistics' type).
std::int64_t norm_partials(DType type, const NormShape& shape);

struct NormGradient {
  const void *dy = nullptr, *x = nullptr, *statistics = nullptr;
  SomeNumbers weight;
  void* dx = nullptr;  // null: not wanted
  SomeNumbers dw, db;  // added to; db without data: there is none
  void* partial = nullptr;
};
cudaError_t launch_norm_b(DType type, const NormGradient& of, const NormShape& shape,
                          cudaStream_t stream);

}  // namespace trainyard
