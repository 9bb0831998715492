// A schedule as a picture in characters: a line per rank, time to the right.
#pragma once

#include <cstddef>
#include <string>

#include "engine/schedule/pipeline_schedule.h"
#include "engine/schedule/schedule_timing.h"

namespace trainyard {

struct GridStyle {
  int columns = 100;    // of the terminal; a longer step is cut in its middle
  bool colour = false;  // by letter, with ANSI escapes
};

/// Whole units of time, so that what starts together stands in one column: F, I, W and R take one,
/// B takes two, a pair as long as both.
inline constexpr ActionDurations kGridDurations{1, 2, 1, 1, 1};

/// The last lines of a grid, which say what its letters mean and what it costs.
inline constexpr std::size_t kGridNotes = 2;

/// "F3", with several stages per rank "2F3"; "R3*" is a recompute before its gradient has come,
/// "F7+B3" a pair, "---" goes on, "." is a unit in which the rank is idle. The last lines say what
/// the letters mean, how long the step is and how much of it is idle. Needs a schedule that can
/// run.
///   rank 0  F0 F1 .  .  B0--- B1---
///   rank 1  .  F0 B0--- F1 B1---
std::string schedule_grid(const PipelineSchedule& schedule, const GridStyle& style);

}  // namespace trainyard
