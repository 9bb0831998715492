// Pass: the instructions of one microbatch -> the Program's values and its compute segments ("3F",
// "3B"; "3I", "3W", "3R" where the schedule has them), the one-op segments that move values between
// stages, and the points where storage is freed.
#pragma once

#include <vector>

#include "engine/passes/differentiate.h"
#include "engine/passes/program_draft.h"
#include "engine/plan/plan.h"

namespace trainyard {

/// `trainings`: of the same model, one for each size of microbatch; each has segments and values of
/// its own, "0F@2seq" where there are several, for a segment says what kernels cost and how long
/// storage lives. Parameters, the loss and pools are common. `forms`: [stage]. `horizon`: of
/// place_loads().
ProgramDraft instantiate(const std::vector<TrainingGraph>& trainings,
                         const Numbered<StageForm>& forms, const ParallelConfig& parallel,
                         const TrainingConfig& config, DType grad_dtype, int horizon);

}  // namespace trainyard
