// Schedules whose order is searched for durations (zb-1p, zb-2p, opportunistic): those of the
// plan's own stages on its own devices.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <variant>

#include "engine/base/error.h"
#include "engine/exec/times/action_times.h"
#include "engine/plan/plan.h"
#include "engine/schedule/schedule_names.h"

namespace trainyard {

/// A step of a plan with closed forms.
struct EvaluatedStep {
  Seconds period = 0;
  ActionTimes times;
};

/// The plan's step under another schedule, its actions timed where asked for; nullopt: it has no
/// Program.
using EvaluateSchedule =
    std::function<std::optional<EvaluatedStep>(const ScheduleConfig&, bool with_times)>;

/// The order that the plan's schedule takes for `durations` (of_stage and transfer), as
/// schedule_csv() writes it. Infeasible where the search is given numbers that it cannot serve.
std::variant<std::string, Infeasible> searched_rows(const Plan& plan, ScheduleSettings durations);

/// The order for the durations of steps under 1f1b and, but for opportunistic, zb-h1: of each stage
/// the mean time from its first kernel to its last, and of a transfer the shortest. Where transfers
/// go by the host, orders for transfers that take no time are tried beside. So evaluated, no step
/// of zb-1p and zb-2p is longer than that of 1F1B or ZB-H1 where their memory allows those orders,
/// nor one of zb-2p than of zb-1p. ASSUME: is_searched_schedule(plan.schedule.method).
std::variant<std::string, Infeasible> search_schedule(const Plan& plan,
                                                      const EvaluateSchedule& evaluate);

}  // namespace trainyard
