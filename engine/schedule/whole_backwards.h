// Halves of a backward joined again where that is faster: a whole backward hides its collectives
// behind its weight gradients, which its halves, apart, cannot.
#pragma once

#include <span>

#include "engine/schedule/pipeline_schedule.h"
#include "engine/schedule/schedule_timing.h"

namespace trainyard {

/// Whether any stage's B takes less time than its I and W.
bool whole_is_faster(const Numbered<ActionDurations>& of_stage);

/// `schedule` with B in place of an I and the W behind it, up to each rank's last forward: from
/// there on the stage before waits for every gradient. Where the W behind an I is of an earlier
/// microbatch, the two change places: as many microbatches are held, and then it is the I's own.
/// One stage per rank.
PipelineSchedule with_whole_backwards(PipelineSchedule schedule);

}  // namespace trainyard
