// Rotary positions on a GPU in one kernel, without LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/base/dtype.h"

namespace trainyard {

/// [samples x seq_len rows, row_width]: `turned` heads of head_dim features, of which i and i +
/// half are turned together, then what stays.
struct RopeShape {
  std::int64_t rows = 0;
  std::int64_t seq_len = 0;
  std::int64_t row_width = 0;
  std::int64_t turned = 0;
  std::int64_t head_dim = 0;
  std::int64_t half = 0;
  bool by_sample = false;  // a row of angles for each row, not for each position
};

/// cos and sin: [seq_len or rows, half], fp64 for fp64, else fp32.
cudaError_t launch_rope(DType type, const void* x, const void* cos, const void* sin, void* y,
                        const RopeShape& shape, cudaStream_t stream);

}  // namespace trainyard
