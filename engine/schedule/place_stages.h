// Several stages on one rank, wherever they lie: the order in which the rank runs them.
#pragma once

#include "engine/schedule/pipeline_schedule.h"
#include "engine/schedule/schedule_timing.h"

namespace trainyard {

/// `each` has one stage per rank; here stage s lies on rank on[s], and keeps its own order. A rank
/// runs what can start first, by `of_stage`, or in units of time (F 1, B 2) where that is empty,
/// transfers taking none; of what could start at once a backward goes first, then the later stage.
/// Whatever order the stages have, one can always go on, so that ranks never wait for each other.
///   place_stages(one_f_one_b(3, 2), {0, 1, 0}):
///   rank 0: 0F0 0F1 2F0 2B0 2F1 2B1 0B0 0B1
///   rank 1: 1F0 1F1 1B0 1B1
PipelineSchedule place_stages(const PipelineSchedule& each, const StageRanks& on,
                              Numbered<ActionDurations> of_stage = {});

}  // namespace trainyard
