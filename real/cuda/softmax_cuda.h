// Softmax over the last dim on a GPU, each way in one kernel, without LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/base/dtype.h"

namespace trainyard {

/// Rows of scores, `queries` of them to a matrix; causal: row i of a matrix has its first i + 1
/// columns alone, what lies behind them is not read, and is 0 in results.
struct SoftmaxShape {
  std::int64_t rows = 0, columns = 0, queries = 1;
  bool causal = false;
};

cudaError_t launch_softmax(DType type, const void* x, void* y, const SoftmaxShape& shape,
                           cudaStream_t stream);
/// dx = y (dy - sum dy y).
cudaError_t launch_softmax_dx(DType type, const void* dy, const void* y, void* dx,
                              const SoftmaxShape& shape, cudaStream_t stream);

}  // namespace trainyard
