// A stage as a chain that may be recomputed: what its groups of ops take in time and memory.
#pragma once

#include <map>
#include <string>

#include "engine/base/units.h"
#include "engine/passes/chain_groups.h"
#include "engine/recompute/chain.h"

namespace trainyard {

/// When the op that writes a tensor of that name has ended, within a forward of its stage.
using EndTimes = std::map<std::string, Seconds>;

/// Sizes in bytes of one microbatch, those of activations times `factor`: what a group makes that
/// backwards read, or the next group; beside that, the most that lives at once while it runs. What
/// is always kept is not in it. Times forward by `ends`, communication in; backward, which is the
/// same whatever is recomputed, 0. O(instructions).
SizedChain stage_chain(const TrainingGraph& training, const ChainGroups& groups, std::int32_t stage,
                       const EndTimes& ends, double factor);

}  // namespace trainyard
