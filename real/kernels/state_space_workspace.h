// What the kernels of state spaces allocate beside their results.
#pragma once

#include <cstdint>

#include "real/kernels/op_sizes.h"

namespace trainyard {

std::int64_t causal_conv1d_workspace(const OpSizes& s, bool back);
std::int64_t chunk_scan_workspace(const OpSizes& s, bool back);

}  // namespace trainyard
