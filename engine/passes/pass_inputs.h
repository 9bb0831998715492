// What the passes over segments know of a plan: as little as may be, so that plans which differ in
// the rest share their segments.
#pragma once

#include "engine/passes/pass.h"

namespace trainyard {

/// What segments know of each stage.
Numbered<StageForm> forms_of_segments(const PassSource& of);

/// What segments know of the degrees: of data whether there are several, and several groups of
/// them, for size_buckets() has the rest of it, unless each replica owns other parameters.
ParallelConfig parallel_of_segments(const PassSource& of);

/// What segments know of the training: of the batch the sizes of microbatches.
TrainingConfig training_of_segments(const PassSource& of);

}  // namespace trainyard
