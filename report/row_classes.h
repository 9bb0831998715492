// Where a recorded rank's step went, from its rows alone: for real runs, whose executor keeps no
// tally.
#pragma once

#include "engine/exec/trace.h"
#include "report/timeline.h"

namespace trainyard {

/// The classes of exec/trace.h over [0, end) of the timeline, seconds; they add up to `end`. What
/// the host does before the first op of main counts as host.
TimeClasses classes_of_rows(const Timeline& timeline, const TimelineRank& rank, Ticks end);

}  // namespace trainyard
