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

enum class TransferOrder : std::uint8_t {
  kAhead,     // a receive is posted one action ahead of its consumer
  kInSeries,  // right before it: the host waits for it
  kBatched,   // and with what is sent there, which goes first (communication_order.h)
};

/// [class of the draft], each in the global order of communication (lower.h), batches as their
/// ranks have them. `calls`: [pipeline rank], of the schedule that `timing` is of; `validation` in
/// that order, too: batches have none, nor buffers.
///
/// Batches are Megatron-LM's (megatron/schedules.py): between any two actions what the one sends
/// and what the other receives. Where a rank has several stages, a forward and the backward behind
/// it are one such action, but for one in a row: all forwards come before all backwards then.
Indexed<std::int32_t, std::vector<PlacedTransfer>> place_transfers(
    const ProgramDraft& draft, const PipelineSchedule& schedule,
    const Numbered<std::vector<PlannedCall>>& calls, const ActionPlaces& places,
    const ScheduleTiming& timing, const std::vector<ValidationCall>& validation,
    TransferOrder order);

}  // namespace trainyard
