// Pass: which forward values are kept for the backward and which are computed again.
//
// Recomputing is nothing but more instructions: clones of forward instructions, placed in the
// backward before the first one that reads their results. Three kinds of region are recomputed:
//   - gathers of sequence parallelism, always: the shard is kept, not the gathered tensor
//     (Korthikanti et al. 2022, section 4.2.2);
//   - selective: the ops between the qkv projection and the output projection;
//   - full: a whole layer from its input; embedding and head are kept.
// What a core or a layer passes on (the output projection's input, the next layer's) is kept.
#pragma once

#include <vector>

#include "engine/config/study.h"
#include "engine/graph/differentiate.h"

namespace trainyard {

/// `recomputing`: [stage]. The others keep their activations, and gather only.
void recompute(TrainingGraph& training, const RecomputeConfig& config,
               const SoftwareProfile& software, const std::vector<bool>& recomputing);

}  // namespace trainyard
