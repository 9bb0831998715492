// Casts to FP8 on a GPU, without LibTorch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/base/dtype.h"

namespace trainyard {

enum class Fp8 : std::uint8_t { kE4m3, kE5m2 };

/// most [1] = the largest |x[i]| of `count`; NaN where one is.
cudaError_t launch_amax(DType type, const void* x, std::int64_t count, float* most,
                        cudaStream_t stream);

/// y[i] = x[i] multiplier[0], clamped to what `to` holds and rounded.
cudaError_t launch_quantize(DType type, const void* x, std::int64_t count, const float* multiplier,
                            Fp8 to, std::uint8_t* y, cudaStream_t stream);
/// The same of x [rows, columns], and turned [columns, rows]: x is read once.
cudaError_t launch_quantize_both(DType type, const void* x, std::int64_t rows, std::int64_t columns,
                                 const float* multiplier, Fp8 to, std::uint8_t* y,
                                 std::uint8_t* turned, cudaStream_t stream);

/// y [columns, rows] of x [rows, columns], bytes.
cudaError_t launch_transpose(const std::uint8_t* x, std::int64_t rows, std::int64_t columns,
                             std::uint8_t* y, cudaStream_t stream);

}  // namespace trainyard
