// Pass: a step's end that waits for all pipeline ranks -> one that waits for the ranks before, and
// a look back from the next step. Optimizer post-validation: Qi et al., Zero Bubble Pipeline
// Parallelism (arXiv:2401.10241), section 4, "Bypassing optimizer synchronizations".
//
// The gradient norm is one number of all ranks, and whoever waits for it before the update waits
// for the slowest: consecutive steps cannot overlap. Instead
//
// - NORM adds what the ranks before have sent (RECV_NORM) to the own squares, and sends that on;
// - UPDATE takes place if this sum is finite and within the clip, with gradients as they are;
// - VALIDATE, in the next step: the sum of all ranks comes back from the last, and the host looks;
// - CORRECT, if it is clipped or not finite (phase V): what the right update would have left;
// - PASS_NORM sends the sum of all on to the rank before.
//
// A sum of squares only grows from rank to rank: where the whole is finite and within the clip, so
// was every part, and what was updated is right. All ranks get the same whole, so all know alike.
//
// Gradients live until CORRECT, so they are persistent, and ZERO comes behind it. The calls stand
// in front of the rank's first backward: forwards of the next step may have run before, with
// weights that turn out wrong. Then that step is void, and who runs the Program runs it again.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/base/error.h"
#include "engine/passes/planned_calls.h"
#include "engine/passes/program_draft.h"
#include "engine/schedule/schedule_timing.h"

namespace trainyard {

/// Changes draft.step and its segments. Nothing changes where one pipeline rank has the whole norm,
/// or nobody takes it. `replicas`: of each pipeline rank, if unlike; then each of a rank hears from
/// one of its neighbour's (replica_classes.h). Infeasible: these are too many transfers.
std::optional<Infeasible> add_post_validation(ProgramDraft& draft,
                                              const std::vector<int>& replicas);

/// A call of the validation, or of what the norm takes, on its way into a rank's list.
struct ValidationCall {
  double time = 0;  // of the unit-time run: its place among all communication
  std::int32_t of_class = 0;
  SegmentId segment = kNoIndex;
  std::int64_t desired = 0;  // issued before this call of an action
  std::int64_t latest = 0;   // and no later than before this one
};

/// In the order in which the sum comes back; then, behind all other transfers and at the earliest
/// before the last action, what receives the next one. A rank looks at it when the first of the
/// ranks up to it begins its first backward: what goes to the rank before goes no earlier, and so
/// the sum has one place in the global order of communication (lower.h) for both ends of each of
/// its transfers. Empty without post-validation. `calls`: [rank], of the schedule that `timing` is
/// of.
std::vector<ValidationCall> validation_calls(const ProgramDraft& draft,
                                             const Numbered<std::vector<PlannedCall>>& calls,
                                             const ScheduleTiming& timing);

}  // namespace trainyard
