// Kernels of a segment that are timed together.
#pragma once

#include "engine/exec/lists/timed_program.h"

namespace trainyard {

/// Adds the runs of `segment` (TimedKernels), with notes in `rank` of what their ops touch.
void find_runs(TimedSegment& segment, TimedRank& rank);

}  // namespace trainyard
