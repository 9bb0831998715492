// A stage's forward as a chain of groups of instructions, each of which hands what it makes to the
// next: what sequences of recomputation (recompute/chain.h) are about.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/passes/training_graph.h"

namespace trainyard {

struct ChainGroups {
  /// [stage][group] indices into TrainingGraph::forward, ascending. In no group: transfers and
  /// data, what an embedding found, the op that makes the loss.
  Numbered<std::vector<std::vector<std::size_t>>> of_stage;
  /// Read by groups behind their own, and kept whatever a sequence says: what has no gradient, and
  /// what another stack of layers reads, as a decoder's layers do of what the encoder made.
  Indexed<TensorId, bool> always_kept;
  Indexed<TensorId, bool> handed_on;  // read by groups behind their own, and not always kept
};

/// linearise() of each stage; what a stage receives may pass any cut, since it stays until the
/// stage's backward is done. O(instructions).
ChainGroups chain_groups(const TrainingGraph& training);

/// [op] the group that it is of, on its stage; -1: of none.
Indexed<OpId, std::int32_t> group_of_ops(const TrainingGraph& training, const ChainGroups& groups);

}  // namespace trainyard
