#include "cli/search_schedule.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
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

/// A step of the study with closed forms.
struct SimulatedStep {
  Program program;
  Trace trace;
};

/// Under `schedule` in place of the study's; nullopt: the study has no Program.
std::optional<SimulatedStep> simulated_step(const Prepared& prepared,
                                            const ScheduleConfig& schedule, bool record_rows) {
  Prepared probe = prepared;
  probe.study.schedule = schedule;
  probe.study.schedule.post_validation = prepared.study.schedule.post_validation;
  PassLog log;
  auto compiled = compile(probe.model, probe.study, probe.software, log);
  auto* program = std::get_if<Program>(&compiled);
  if (program == nullptr) return std::nullopt;
  SourceLog sources;
  const Costs costs =
      make_costs(*program, probe.hardware, probe.software, probe.study.cluster, sources);
  RunOptions options;
  options.record_rows = record_rows;
  const std::array<Job, 1> jobs = {Job{program, 0}};
  Trace trace = AnalyticExecutor().run(jobs, costs, options);
  return SimulatedStep{std::move(*program), std::move(trace)};
}

ScheduleConfig by_method(const std::string& method) {
  ScheduleConfig schedule;
  schedule.method = method;
  return schedule;
}

void add(const SimulatedStep& step, ActionTimes& times) {
  for (const RankTrace& rank : step.trace.ranks) times.add(step.program, rank.rows);
}

/// `rows`, or those of 1F1B where the memory limit allows them and a step with them, which takes `time_of_1f1b`, is
/// shorter. The search knows actions alone: a reduction of gradients that is hidden behind the last backwards of one order may
/// be exposed in another.
std::string faster_rows(const Prepared& prepared, std::string rows, Seconds time_of_1f1b) {
  const Study& study = prepared.study;
  const ScheduleConfig& asked = study.schedule;
  const int ranks = study.parallel.pipeline;
  const auto microbatches = static_cast<int>(study.num_microbatches());
  if (asked.memory_limit != 0 && asked.memory_limit < std::min(ranks, microbatches)) return rows;
  std::string whole = schedule_csv(one_f_one_b(ranks, microbatches));
  ScheduleConfig found = asked;
  found.rows = rows;
  const auto step = simulated_step(prepared, found, false);
  return step && step->trace.period > time_of_1f1b * (1 + 1e-9) ? whole : rows;
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
  const bool splits = study.schedule.method != "opportunistic";
  const auto whole = simulated_step(prepared, by_method("1f1b"), true);
  const auto halves =
      splits ? simulated_step(prepared, by_method("zb-h1"), true) : std::optional<SimulatedStep>();
  if (!whole || (splits && !halves)) {
    study.schedule.rows = searched_rows(study, {});  // compile() will say why it has no Program
  } else {
    ActionTimes times(study.parallel.pipeline);
    add(*whole, times);
    if (halves) add(*halves, times);
    std::string rows = searched_rows(study, durations_of(times, mean_time));
    study.schedule.rows = splits ? faster_rows(prepared, std::move(rows), whole->trace.period) : std::move(rows);
  }
  study.origins["schedule.rows"] =
      derived_origin("searched for the durations of these stages on these devices");
}

}  // namespace trainyard
