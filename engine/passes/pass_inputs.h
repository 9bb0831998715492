// What passes know of a plan: as little as may be, so that plans which differ in the rest share
// what they make.
#pragma once

#include "engine/passes/fp8_copies.h"
#include "engine/passes/pass.h"

namespace trainyard {

/// What passes may ask of such a plan. All outlive it but the schedule.
PassSource pass_source(const Plan& plan, const PipelineLinks& links,
                       const PipelineSchedule& schedule, const SoftwareProfile& software);

/// Where the largest elements of what is cast into 8 bits are looked for.
AmaxAxes amax_axes(const PassSource& of);

/// What segments know of each stage.
Numbered<StageForm> forms_of_segments(const PassSource& of);

/// What segments know of the degrees: of data whether there are several, and several groups of
/// them, for size_buckets() has the rest of it, unless each replica owns other parameters.
ParallelConfig parallel_of_segments(const PassSource& of);

/// What segments know of the training: of the batch the sizes of microbatches.
TrainingConfig training_of_segments(const PassSource& of);

}  // namespace trainyard
