// ZB-1p and ZB-2p: split backwards in an order that is searched for the durations at hand and a
// limit on activations.
#pragma once

#include <span>

#include "engine/schedule/pipeline_schedule.h"
#include "engine/schedule/schedule_timing.h"

namespace trainyard {

/// One stage per rank, which never holds more than `memory_limit` microbatches (F done, W not).
/// Eight orders are made, eight more for a limit of p where that is less, and ZB-H1 and 1F1B are
/// looked at where they keep the limit; the one with the shortest step is taken, of equal ones that
/// with the shortest longest span (a rank's first start to its last end), then the first. Where
/// `steps_overlap`, the span goes before the step: a rank begins its next one when it has done
/// this. Each order:
///   - as many forwards before the first backward as memory and time allow; the last may delay that
///     backward or not (first choice);
///   - then a forward and an I in turn, every stage ahead of the next by at least a forward; a
///     stage that is ahead by more leaves one out where it would delay a backward, or not (second);
///   - a W where one fits into a gap, or where memory is full; in a shorter gap where the gap would
///     become the longest idle time of all ranks, or never (third);
///   - what W are left at the end.
/// Where a whole backward takes less time than its halves, these orders with whole backwards up to
/// the last forwards (whole_backwards.h), and 1F1B with whole ones throughout, are looked at too.
/// With F = I = W on p equal stages, no transfers, m >= 2p - 1 microbatches and a limit of 2p - 1
/// or more no rank idles in its span; with a limit of p each idles no longer than in ZB-H1. Qi et
/// al., Zero Bubble Pipeline Parallelism (arXiv:2401.10241), section 3.1. `of_stage`: [stage], F,
/// B, I and W of it; `transfer`: between stages. Needs memory_limit >= 1.
PipelineSchedule automatic_zero_bubble(const Numbered<ActionDurations>& of_stage, double transfer,
                                       int num_microbatches, int memory_limit,
                                       bool steps_overlap = false);

}  // namespace trainyard
