// Sizes of microbatches that are not alike (training.microbatch: [2, 3, 3]).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/indexed.h"
#include "engine/plan/plan.h"

namespace trainyard {

/// Sequences per microbatch and replica: every size once, the largest first.
std::vector<std::int64_t> microbatch_sizes(const TrainingConfig& training);

/// [microbatch]: index of its size among those; empty where all have one.
Numbered<std::size_t> size_of_microbatches(const TrainingConfig& training);

/// [microbatch]: sequences of the replica that come before it in the step.
std::vector<std::int64_t> samples_before(const TrainingConfig& training, int num_microbatches);

}  // namespace trainyard
