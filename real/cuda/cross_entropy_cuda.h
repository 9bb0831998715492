// Cross entropy on a GPU, each way in one kernel over the logits, without LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/base/dtype.h"

namespace trainyard {

/// y [rows, columns]: logarithms of the softmax of x's first `classes` columns, and -inf behind
/// them; y in fp64 for fp64, else fp32.
cudaError_t launch_log_softmax(DType type, const void* x, void* y, std::int64_t rows,
                               std::int64_t columns, std::int64_t classes, cudaStream_t stream);

/// dx [rows, columns] of `type` = scale (exp(y) - 1 where labels [rows] less first_column say so),
/// 0 in rows without a label (below 0); y in fp64 for fp64, else fp32.
cudaError_t launch_cross_entropy_dx(DType type, const void* y, const std::int64_t* labels, void* dx,
                                    std::int64_t rows, std::int64_t columns,
                                    std::int64_t first_column, double scale, cudaStream_t stream);

}  // namespace trainyard
