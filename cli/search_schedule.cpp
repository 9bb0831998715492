#include "cli/search_schedule.h"

#include <algorithm>
#include <array>
#include <variant>

#include "engine/compile.h"
#include "engine/config/study_origin.h"
#include "engine/config/study_words.h"
#include "engine/exec/action_times.h"
#include "engine/exec/analytic_executor.h"
#include "engine/schedule/schedule_csv.h"
#include "engine/schedule/schedule_names.h"

namespace trainyard {

namespace {

/// Adds the times of the study's actions under `schedule`. False: the study has no Program.
bool add_simulated_times(const Prepared& prepared, const std::string& schedule, ActionTimes& times) {
  Prepared probe = prepared;
  probe.study.schedule = {};
  probe.study.schedule.method = schedule;
  PassLog log;
  const auto compiled = compile(probe.model, probe.study, probe.software, log);
  const auto* program = std::get_if<Program>(&compiled);
  if (program == nullptr) return false;
  SourceLog sources;
  const Costs costs =
      make_costs(*program, probe.hardware, probe.software, probe.study.cluster, sources);
  RunOptions options;
  options.record_rows = true;
  const std::array<Job, 1> jobs = {Job{program, 0}};
  for (const RankTrace& rank : AnalyticExecutor().run(jobs, costs, options).ranks) times.add(*program, rank.rows);
  return true;
}

/// The durations of the study's stages, of whole backwards and where the search may split them of their halves; of a
/// study that has no Program, which compile() will say, units.
ScheduleSettings simulated_durations(const Prepared& prepared) {
  ActionTimes times(prepared.study.parallel.pipeline);
  if (!add_simulated_times(prepared, "1f1b", times)) return {};
  const bool splits = prepared.study.schedule.method != "opportunistic";
  if (splits && !add_simulated_times(prepared, "zb-h1", times)) return {};
  return durations_of(times, mean_time);
}

}  // namespace

std::string searched_rows(const Study& study, ScheduleSettings durations) {
  durations.memory_limit = study.schedule.memory_limit;
  durations.active_microbatches = study.schedule.active_microbatches;
  durations.steps_overlap = study.schedule.post_validation;
  const auto found = schedule_by_name(study.schedule.method, study.parallel.pipeline, 1,
                                      static_cast<int>(study.num_microbatches()), false, durations);
  if (const auto* reason = std::get_if<Infeasible>(&found)) fail_at(study, "schedule", reason->reason);
  return schedule_csv(std::get<PipelineSchedule>(found));
}

void search_schedule(Prepared& prepared) {
  Study& study = prepared.study;
  if (!is_searched_schedule(study.schedule.method) || !study.schedule.rows.empty()) return;
  study.schedule.rows = searched_rows(study, simulated_durations(prepared));
  study.origins["schedule.rows"] =
      derived_origin("searched for the durations of these stages on these devices");
}

}  // namespace trainyard
