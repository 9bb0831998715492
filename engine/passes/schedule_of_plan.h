// Pass: a plan -> the actions of each pipeline rank.
#pragma once

#include <variant>

#include "engine/base/error.h"
#include "engine/plan/plan.h"
#include "engine/schedule/pipeline_schedule.h"

namespace trainyard {

/// Its rows where it has them, else the schedule of its name. Infeasible: more actions than a list
/// of calls may have, or a schedule that cannot serve the plan's degrees.
std::variant<PipelineSchedule, Infeasible> schedule_of_plan(const Plan& plan);

}  // namespace trainyard
