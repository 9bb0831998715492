// The timeline as the report's page gets it: small enough to keep, whole enough to look into.
//
// Calls of one segment run alike again and again, so what their ops do is stored once, as a pattern
// of times since the call's start, and a call only says which pattern it follows. A thousand
// microbatches of a hundred layers are then a few patterns and a list of calls. Where that is still
// too much, parts are left out and the page says which:
//   ops of calls beyond the first max_pattern_ops ops (the call keeps one box per stream, a pair
//   one for both), ranks, of which one of each pipeline rank stays, then evenly spaced ones, and
//   the middle of a rank's calls, beyond max_calls, all but the highest, the lowest and the last
//   of the memory points in each short stretch of the step, beyond max_memory_points.
//
//   {unit_s: 1e-9, end: of the step in units, names: [...], modules: [...],
//    segments: [[name, stage, phase]], groups: [[name, axes]],
//    axes: [...] of the mesh, streams: [...],
//    patterns: [[name, stream, group, module, start, duration, wait, host, ...]],  (8 numbers an
//    op) ranks: [{rank, stands_for, pipeline_rank, at: [of each axis],
//             calls: [segment, microbatch, start, pattern, wait, ...],  (5 numbers a call)
//             pairs: [call, call, ...],  (where calls run together: their places in `calls`)
//             left_out: [from, to, calls],  (where its middle is)
//             memory: [at, parameters, gradients, optimizer_state, activations, buffers, ...]}],
//    left_out: {ranks, calls, calls_without_ops, memory_points}}
//
// Starts count from the op or call before, memory numbers from those before. `wait` is from ready
// to start: of a call, of its first op. host: the op started as soon as the host had issued it. An
// op without a name (-1) stands for `module` ops of its stream; of a pair the earlier call has
// those of both. memory: of the first rank of each pipeline rank only, since all of them are alike.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "report/timeline.h"

namespace trainyard {

/// About 10 MB where numbers are short; report_html() takes less where they are long.
struct TimelineLimits {
  std::size_t max_pattern_ops = 120'000;
  std::size_t max_calls = 320'000;
  std::size_t max_memory_points = 30'000;
};

nlohmann::ordered_json timeline_blob(const Timeline& timeline, const TimelineLimits& limits = {});

}  // namespace trainyard
