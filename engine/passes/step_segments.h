// What happens once per step around the microbatches: gradients are zeroed, reduced bucket by
// bucket, their norm is taken, the optimizer updates the weights. Each is a segment; lower() places
// the calls.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/cost/software_profile.h"
#include "engine/passes/program_draft.h"
#include "engine/plan/plan.h"

namespace trainyard {

/// A segment of no microbatch, "3NORM" of stage 3 and name NORM.
SegmentId add_step_segment(Program& program, std::int32_t stage, const std::string& name,
                           Phase phase, std::vector<ProgramOp> ops);

/// Fills draft.step.
void add_step_segments(ProgramDraft& draft, const ParallelConfig& parallel,
                       const TrainingConfig& config, const SoftwareProfile& software);

}  // namespace trainyard
