#include "engine/passes/schedule_of_plan.h"

#include <cstdint>
#include <string>

#include "engine/schedule/schedule_csv.h"
#include "engine/schedule/schedule_names.h"

namespace trainyard {

std::variant<PipelineSchedule, Infeasible> schedule_of_plan(const Plan& plan) {
  // Lists of calls are explicit, so their length is what a Program costs.
  constexpr std::int64_t kMostActions = std::int64_t{1} << 23U;
  const ParallelConfig& parallel = plan.parallel;
  const std::int64_t num_stages = plan.num_stages();
  const std::int64_t actions = 2 * num_stages * plan.num_microbatches();
  if (actions > kMostActions) {
    return Infeasible{
        std::to_string(num_stages) + " stages x " + std::to_string(plan.num_microbatches()) +
            " microbatches are " + std::to_string(actions) +
            " actions a step; this version compiles up to " + std::to_string(kMostActions),
        "training.global_batch"};
  }
  if (!plan.schedule.rows.empty())
    return parse_schedule_csv(plan.schedule.rows, plan.schedule.method, plan.partition.on);
  ScheduleSettings settings;
  settings.microbatch_group = plan.schedule.microbatch_group;
  settings.on = plan.partition.on;
  for (const double work : plan.partition.work)
    settings.of_stage.push_back({.forward = work, .backward = 2 * work});
  return schedule_by_name(plan.schedule.method, parallel.pipeline, parallel.virtual_stages,
                          static_cast<int>(plan.num_microbatches()), false, settings);
}

}  // namespace trainyard
