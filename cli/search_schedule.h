// Schedules whose order is searched for durations (zb-1p, zb-2p, opportunistic): those of the
// study's own stages on its own devices.
#pragma once

#include "cli/prepare.h"

namespace trainyard {

/// Fills in schedule.rows where the study's schedule is searched and has none. The durations are
/// those of a step simulated with closed forms (analytic) under zb-h1, for opportunistic under
/// 1f1b: of each stage the mean time from its first kernel to its last, and of a transfer its mean.
/// Throws ConfigError where the search is given numbers that it cannot serve.
void search_schedule(Prepared& prepared);

}  // namespace trainyard
