// The GPU's dropout kernel, without LibTorch: nvcc sees none of its headers.
#pragma once

#include <cuda_runtime_api.h>

#include "engine/base/dtype.h"
#include "real/kernels/dropout_mask.h"

namespace trainyard {

/// x and y: mask.num_runs() runs of `type` (fp64, fp32, fp16, bf16), one behind the other.
cudaError_t launch_dropout(DType type, const void* from, void* to, const DropoutMask& mask,
                           cudaStream_t stream);

}  // namespace trainyard
