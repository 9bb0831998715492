// What the kernels of state spaces allocate beside their results, on a CPU.
#pragma once

#include <cstdint>

#include "real/kernels/op_sizes.h"

namespace trainyard {

std::int64_t causal_conv1d_workspace(const OpSizes& s, bool back);
/// A CPU takes chunks one after the other. A GPU's own kernels take all at once, which needs copies
/// of all that is read, the states of all chunks, and weights of pairs of up to 256 MiB at a time
/// (real/cuda/cuda_state_space.cpp): more, and declared nowhere.
std::int64_t chunk_scan_workspace(const OpSizes& s, bool back);

}  // namespace trainyard
