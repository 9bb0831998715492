#include "app/search_schedule.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "engine/exec/action_times.h"
#include "engine/exec/analytic_executor.h"
#include "engine/schedule/schedule_csv.h"
#include "engine/schedule/schedule_names.h"
#include "study/compile_study.h"
#include "study/study_origin.h"
#include "study/study_words.h"

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

/// An order and, where it is known, the time of a step with it.
struct Candidate {
  std::string rows;
  std::optional<Seconds> time;
};

std::string rows_of(const Study& study, const std::string& method,
                    const ScheduleSettings& settings) {
  const auto made = schedule_by_name(method, study.parallel.pipeline, 1,
                                     static_cast<int>(study.num_microbatches()), false, settings);
  if (const auto* reason = std::get_if<Infeasible>(&made))
    fail_at(study, "schedule", reason->reason);
  return schedule_csv(std::get<PipelineSchedule>(made));
}

/// Unless it is there.
void add(std::string rows, std::vector<Candidate>& candidates) {
  for (const Candidate& candidate : candidates) {
    if (candidate.rows == rows) return;
  }
  candidates.push_back({std::move(rows), std::nullopt});
}

Seconds time_of(const Prepared& prepared, const Candidate& candidate) {
  if (candidate.time) return *candidate.time;
  ScheduleConfig schedule = prepared.study.schedule;
  schedule.rows = candidate.rows;
  const auto step = simulated_step(prepared, schedule, false);
  return step ? step->trace.period : std::numeric_limits<Seconds>::infinity();
}

/// `candidates` has what was searched first. It gives way to another only where a step is shorter
/// by more than rounding.
std::string fastest(const Prepared& prepared, const std::vector<Candidate>& candidates) {
  if (candidates.size() == 1) return candidates.front().rows;
  const Candidate* best = nullptr;
  Seconds shortest = 0;
  for (const Candidate& candidate : candidates) {
    const Seconds time = time_of(prepared, candidate);
    if (best != nullptr && time * (1 + 1e-9) >= shortest) continue;
    best = &candidate;
    shortest = time;
  }
  return best->rows;
}

/// For these durations and, where transfers are host-staged, for transfers that take no time, too:
/// copies of what comes from either side share a stream, so one that the search expects early may
/// wait behind one that comes late.
std::vector<ScheduleSettings> searches(const ScheduleSettings& durations, bool by_host) {
  std::vector<ScheduleSettings> out = {durations};
  if (by_host) out.emplace_back(durations).transfer = 0;
  return out;
}

/// Orders of other schedules that the memory limit allows: those of 1F1B (`whole`), ZB-H1
/// (`halves`) and, for zb-2p, of what zb-1p finds. The search knows actions alone: a reduction of
/// gradients that is hidden behind the last backwards of one order may be exposed in another.
void add_others(const Study& study, const std::vector<ScheduleSettings>& searches,
                const SimulatedStep& whole, const SimulatedStep& halves,
                std::vector<Candidate>& candidates) {
  const auto limit = study.schedule.memory_limit;
  const auto in_flight =
      std::min(study.parallel.pipeline, static_cast<int>(study.num_microbatches()));
  if (limit != 0 && limit < in_flight) return;
  if (study.schedule.method == "zb-2p") {
    for (ScheduleSettings durations : searches) {
      durations.steps_overlap = study.schedule.post_validation;
      add(rows_of(study, "zb-1p", durations), candidates);
    }
  }
  candidates.push_back({rows_of(study, "zb-h1", {}), halves.trace.period});
  candidates.push_back({rows_of(study, "1f1b", {}), whole.trace.period});
}

}  // namespace

std::string searched_rows(const Study& study, ScheduleSettings durations) {
  durations.memory_limit = study.schedule.memory_limit;
  durations.active_microbatches = study.schedule.active_microbatches;
  durations.steps_overlap = study.schedule.post_validation;
  return rows_of(study, study.schedule.method, durations);
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
    const auto settings = searches(durations_of(times, mean_time), !times.sends_by_host.empty());
    std::vector<Candidate> candidates;
    for (const ScheduleSettings& durations : settings)
      add(searched_rows(study, durations), candidates);
    if (splits) add_others(study, settings, *whole, *halves, candidates);
    study.schedule.rows = fastest(prepared, candidates);
  }
  study.origins["schedule.rows"] =
      derived_origin("searched for the durations of these stages on these devices");
}

}  // namespace trainyard
