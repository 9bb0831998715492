// 1F1B with full recompute, and the schedules of Merak that recompute before the gradient has come.
// With s stages, m microbatches, F = R = 1 and B = 2 on every stage, and m >= s (m >= 4 for scp):
//   recompute inside the backward   4m + 4(s-1)
//   pre-recompute                   4m + 3(s-1)
//   last-no-recompute               4m + 3(s-2) + 1
//   shifted critical path (scp)     4m + 3(s-2)
// Lai et al., Merak (arXiv:2206.04959), section 5.2; last-no-recompute is in its code alone.
#pragma once

#include "engine/schedule/pipeline_schedule.h"

namespace trainyard {

/// Puts an R in front of every backward of `schedule`.
PipelineSchedule with_recompute(PipelineSchedule schedule);

/// 1F1B's order. In the cool-down (microbatch k of stage i with m - k + i < s) stages recompute
/// early.
PipelineSchedule pre_recompute_one_f_one_b(int num_stages, int num_microbatches);

/// 1F1B's order; the last stage keeps its activations. The one before it recomputes its first
/// microbatch early, the others early in the cool-down.
PipelineSchedule last_no_recompute_one_f_one_b(int num_stages, int num_microbatches);

/// The last stage keeps its activations; the one before it runs three forwards before its first
/// backward and recomputes its first two microbatches early, the one before that its first; stages
/// before those recompute early in the cool-down too. Needs at least 2 stages, m >= s and m >= 4.
PipelineSchedule shifted_critical_path(int num_stages, int num_microbatches);

/// [stage]: microbatches that DeepSpeed's and Merak's runtimes have room for,
/// max(2, min(s - i + 1, m)): those in flight and the one that is being received.
std::vector<int> pipe_buffers(int num_stages, int num_microbatches);

}  // namespace trainyard
