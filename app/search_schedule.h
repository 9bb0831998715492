// Schedules whose order is searched for durations (zb-1p, zb-2p, opportunistic): those of the
// study's own stages on its own devices.
#pragma once

#include <string>

#include "app/prepare.h"
#include "engine/schedule/schedule_names.h"

namespace trainyard {

/// The order that the study's schedule takes for `durations` (of_stage and transfer), as
/// schedule_csv() writes it. Throws ConfigError where the search is given numbers that it cannot
/// serve.
std::string searched_rows(const Study& study, ScheduleSettings durations);

/// Fills in schedule.rows where the study's schedule is searched and has none. The durations are
/// those of steps simulated with closed forms (analytic, whatever the study's fidelity, so that all
/// take the same order) under 1f1b and, but for opportunistic, zb-h1: of each stage the mean time
/// from its first kernel to its last, and of a transfer the shortest. Where transfers go by the
/// host, orders for transfers that take no time are tried beside. So simulated, no step of
/// zb-1p and zb-2p is longer than that of 1F1B or ZB-H1 where their memory allows those orders, nor
/// one of zb-2p than of zb-1p. Throws as searched_rows().
void search_schedule(Prepared& prepared);

}  // namespace trainyard
