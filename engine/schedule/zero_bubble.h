// Schedules that split the backward: I, which the stage before waits for, and W, which nobody waits
// for and which fills what would be idle.
#pragma once

#include "engine/schedule/pipeline_schedule.h"

namespace trainyard {

/// ZB-H1: 1F1B whose rank r puts W off by r of its backwards. With F, I, W on p equal stages:
///   idle = (p-1)(F + I - W)      of every rank, where W <= I and W <= F, and m >= p
///   in_flight = min(m, p)        on every rank: 1F1B's most
/// Qi et al., Zero Bubble Pipeline Parallelism (arXiv:2401.10241), section 2.1.
PipelineSchedule zb_h1(int num_stages, int num_microbatches);

/// The interleaved schedule with one extra warm-up forward per later rank instead of two, and W put
/// off as in ZB-H1 (PyTorch's InterleavedZeroBubble). Groups of microbatches as interleaved().
PipelineSchedule interleaved_zb1p(int num_ranks, int stages_per_rank, int num_microbatches);

/// ZB-V: rank r runs stages r and 2 ranks - 1 - r, so that the loss is on the first rank. In flight
/// at the peak: at most 2 ranks halves of a rank's layers, 1F1B's most. Qi et al.
/// (arXiv:2401.10241), section 6; the order as PyTorch has it.
PipelineSchedule zb_v(int num_ranks, int num_microbatches);

/// DualPipeV: stages as in ZB-V; a forward and a backward of different stages run together, and
/// share communication and compute. Needs m >= 2 ranks. DeepSeek-AI, DualPipe; cut in half by Sea
/// AI Lab.
PipelineSchedule dualpipe_v(int num_ranks, int num_microbatches);

}  // namespace trainyard
