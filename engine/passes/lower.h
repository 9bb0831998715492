// Pass: schedule -> the list of calls of each rank class, with sends, receives, gradient buckets,
// late frees and the optimizer step in place.
//
// [Note: one global order of communication] Transfers are ordered by when a unit-time run of the
// schedule produces them (forward before backward on ties), and every rank issues its sends and
// receives in that order. So no two ranks ever wait for each other crosswise, whatever the
// schedule. Within that order a send follows its producer at once, and a receive is posted one
// action ahead of its consumer, so that it can run beside the action before. Where the host waits
// for transfers they go in batches (placed_transfers.h), if these have an order; else in series,
// each receive right before its consumer.
//
// What a segment needs back from the host at its begin (place_loads.h) is issued before the action
// in front of it.
//
// An R that waits for the gradient is no call of its own: its backward recomputes inside. A pair
// that runs together is one call, of a segment that holds both (pair_segments.h): what either reads
// is received before it, what either sends leaves behind it.
#pragma once

#include <optional>

#include "engine/base/error.h"
#include "engine/cost/software_profile.h"
#include "engine/passes/program_draft.h"
#include "engine/plan/plan.h"
#include "engine/schedule/pipeline_schedule.h"

namespace trainyard {

/// Fills draft.program.body, and the number of slots of each receive pool: the most instances alive
/// at once in issue order. Infeasible: the schedule deadlocks.
std::optional<Infeasible> lower(ProgramDraft& draft, const PipelineSchedule& schedule,
                                const SoftwareProfile& software);

}  // namespace trainyard
