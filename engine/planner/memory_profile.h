// What each op of a model takes in memory for one microbatch, forward and backward, by shapes
// alone.
#pragma once

#include <string>

#include "engine/base/indexed.h"
#include "engine/base/units.h"
#include "engine/passes/training_graph.h"

namespace trainyard {

/// Bytes of storage: a view, or what is written in place, takes none of its own. Parameters, their
/// gradients and optimizer state are not in it. Liu et al., MAP (arXiv:2302.02599), section 4.1,
/// figure 3; kernels' workspaces are no values, and are not in it either.
struct OpMemory {
  Bytes fwd_in = 0;    // of what it reads: what its backward reads again
  Bytes fwd_tmp = 0;   // it makes, and nothing reads
  Bytes fwd_out = 0;   // it makes, and something reads
  Bytes fwd_kept = 0;  // of that: what any backward reads
  Bytes bwd_tmp = 0;   // its backward makes, for itself alone
  Bytes bwd_out = 0;   // its backward makes, for others: gradients
};

struct MemoryProfile {
  Indexed<OpId, OpMemory> ops;
  Bytes kept = 0;           // made forward and read backward: what recomputation could save
  Bytes peak = 0;           // at any one time
  OpId peak_op = kNoIndex;  // it runs then
  bool peak_backward = false;
};

/// `training` in one stage. Storage is taken where it is first written, and given back behind the
/// last that reads or writes it; data is there from the beginning, and is not counted.
/// O(instructions).
MemoryProfile profile_memory(const TrainingGraph& training);

}  // namespace trainyard
