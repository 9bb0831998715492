// Elements of one floating-point type to another, in host memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/dtype.h"

namespace trainyard {

/// Whether convert() takes these: the same type, or both of fp64, fp32, fp16, bf16.
bool is_convertible(DType from, DType to);

/// Copies `count` elements, which need no alignment. Rounds once, to nearest even, also to
/// subnormal numbers; what is too large becomes infinite; NaNs stay NaNs.
void convert(DType from, const std::byte* in, DType to, std::byte* out, std::int64_t count);

}  // namespace trainyard
