// Kernels of a segment that are timed together.
#pragma once

#include "engine/exec/lists/timed_program.h"

namespace trainyard {

/// Adds the runs of `segment` (TimedKernels), with notes in `rank` of what their ops touch.
/// `slows`: kernels may slow down, so that the end of an op within a run is not known before it; a
/// run ends behind what others may wait for, then.
void find_runs(TimedSegment& segment, TimedRank& rank, bool slows);

}  // namespace trainyard
