// SwiGLU and GEGLU on a GPU in one kernel each way, without LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include "engine/base/dtype.h"
#include "real/kernels/gate.h"

namespace trainyard {

/// y [rows, width] = gate(x[:, :width]) x[:, width:], of x [rows, 2 width].
cudaError_t launch_gated(DType type, Gate gate, const void* x, void* y, std::int64_t rows,
                         std::int64_t width, cudaStream_t stream);
/// dx [rows, 2 width] of dy [rows, width].
cudaError_t launch_gated_dx(DType type, Gate gate, const void* dy, const void* x, void* dx,
                            std::int64_t rows, std::int64_t width, cudaStream_t stream);

}  // namespace trainyard
