// Where the weights of a bucket that is gathered in 8 bits lie in a rank's shard of it, which is
// cast weight by weight (engine/passes/fp8_gathers.h).
#pragma once

#include <vector>

#include "engine/program/program.h"
#include "real/kernels/fp8.h"

namespace trainyard {

/// Whether an op looks for the largest elements of a shard's weights, or casts them.
bool is_shard_cast(const ProgramOp& op);

/// The parts of weights that the shard has which such an op reads on the rank at `at`, without what
/// pads them. Weights are numbered as they lie in the bucket.
std::vector<WeightPart> weights_in_shard(const Program& program, const ProgramOp& op,
                                         const Coordinate& at);

}  // namespace trainyard
