// Recomputation by sequences: a stage's groups of ops run forward again in the midst of its
// backward, some more than once, as rotor plans them (recompute/rotor.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/passes/recompute_regions.h"
#include "engine/passes/training_graph.h"

namespace trainyard {

/// Those of attention_cores() in groups that sequences keep without them (Fs); they run again for
/// their own backward. `sequences` as below.
std::vector<RecomputeRegion> cores_of_sequences(const TrainingGraph& training,
                                                const std::vector<std::string>& sequences);

/// `sequences`: [stage], in the text of recompute/chain.h, about chain_groups(). Forwards behind L
/// become clones in front of the backward of the group that the sequence has next, which read what
/// was computed last, as backwards do; what nobody reads any more is freed as everywhere. Forwards
/// that keep nothing do only what their result needs, unless `all_ops`. Infeasible, at
/// recompute.sequences: a sequence that is none of its stage.
std::optional<Infeasible> recompute_by_sequences(TrainingGraph& training,
                                                 const std::vector<std::string>& sequences,
                                                 bool all_ops);

}  // namespace trainyard
