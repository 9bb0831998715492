// SageMaker's schedule, which is decided while it runs: whichever is ready.
#pragma once

#include <span>

#include "engine/schedule/pipeline_schedule.h"
#include "engine/schedule/schedule_timing.h"

namespace trainyard {

/// A rank that is free runs a backward if one is ready, of the first microbatch, else the next
/// forward if its input is there, else it waits. Stage 0 starts a microbatch only while fewer than
/// `active_microbatches` have begun and not ended there. `on`: the rank of each stage, empty: one
/// each; of several that could run at once, a backward goes first, then the later stage. `of_stage`
/// and `transfer` as time_schedule() has them, which gives these very times back. Karakus et al.,
/// Amazon SageMaker Model Parallelism (arXiv:2111.05972), section 4.3, "interleaved".
PipelineSchedule opportunistic(const Numbered<ActionDurations>& of_stage, double transfer,
                               int num_microbatches, int active_microbatches,
                               const StageRanks& on = {});

}  // namespace trainyard
