// Where the sends and receives of each rank stand among its actions, and which way each transfer
// goes.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/passes/action_places.h"
#include "engine/passes/planned_calls.h"
#include "engine/passes/post_validation.h"
#include "engine/passes/program_draft.h"
#include "engine/schedule/pipeline_schedule.h"
#include "engine/schedule/schedule_timing.h"

namespace trainyard {

/// A send or receive of one rank, or a call of the validation. Places are counted in actions:
/// issued before action k.
struct PlacedTransfer {
  const StageTransfer* transfer = nullptr;  // nullptr: a call of the validation
  bool sends = false;
  Microbatch mb = 0;
  std::int64_t earliest = 0;         // sends: after their producer
  std::int64_t desired = 0;          // where it stands
  std::int64_t latest = 0;           // receives: before their consumer
  std::int64_t consumer = 0;         // receives: what reads it
  const WaySegments* way = nullptr;  // of `transfer`
  SegmentId validation = kNoIndex;   // none: a send or receive
};

/// [class of the draft], each in the global order of communication (lower.h). `calls`: [pipeline
/// rank], of the schedule that `timing` is of; `validation` in that order, too. `receives_ahead`: a
/// receive is posted one action ahead of its consumer, not right before it.
Indexed<std::int32_t, std::vector<PlacedTransfer>> place_transfers(
    const ProgramDraft& draft, const PipelineSchedule& schedule,
    const Numbered<std::vector<PlannedCall>>& calls, const ActionPlaces& places,
    const ScheduleTiming& timing, const std::vector<ValidationCall>& validation,
    bool receives_ahead);

}  // namespace trainyard
