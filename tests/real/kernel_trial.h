// Kernels of one op of a general kind beside LibTorch's autograd.
#pragma once

#include <cstdint>

#include "engine/graph/op_kind.h"

namespace trainyard {

/// The largest difference, relative to numbers above 1, between what the kernels of a random op of
/// the kind give, forward and backward, written and accumulated, and what autograd does.
double distance_from_torch(OpKind kind, std::uint64_t seed);

}  // namespace trainyard
