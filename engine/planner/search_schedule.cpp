#include "engine/planner/search_schedule.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "engine/schedule/schedule_csv.h"

namespace trainyard {

namespace {

/// What the search was given cannot be served.
struct Unserved {
  Infeasible why;
};

ScheduleConfig by_method(const Plan& plan, const std::string& method) {
  ScheduleConfig schedule;
  schedule.method = method;
  schedule.post_validation = plan.schedule.post_validation;
  return schedule;
}

/// An order and, where it is known, the time of a step with it.
struct Candidate {
  std::string rows;
  std::optional<Seconds> time;
};

/// Throws Unserved.
std::string rows_of(const Plan& plan, const std::string& method, ScheduleSettings settings) {
  settings.on = plan.partition.on;
  const auto made = schedule_by_name(method, plan.parallel.pipeline, 1,
                                     static_cast<int>(plan.num_microbatches()), false, settings);
  if (const auto* reason = std::get_if<Infeasible>(&made))
    throw Unserved{{reason->reason, "schedule"}};
  return schedule_csv(std::get<PipelineSchedule>(made));
}

std::string planned_rows(const Plan& plan, ScheduleSettings durations) {
  durations.memory_limit = plan.schedule.memory_limit;
  durations.active_microbatches = plan.schedule.active_microbatches;
  durations.steps_overlap = plan.schedule.post_validation;
  return rows_of(plan, plan.schedule.method, durations);
}

/// Unless it is there.
void add(std::string rows, std::vector<Candidate>& candidates) {
  for (const Candidate& candidate : candidates) {
    if (candidate.rows == rows) return;
  }
  candidates.push_back({std::move(rows), std::nullopt});
}

Seconds time_of(const Plan& plan, const EvaluateSchedule& evaluate, const Candidate& candidate) {
  if (candidate.time) return *candidate.time;
  ScheduleConfig schedule = plan.schedule;
  schedule.rows = candidate.rows;
  const auto step = evaluate(schedule, false);
  return step ? step->period : std::numeric_limits<Seconds>::infinity();
}

/// `candidates` has what was searched first. It gives way to another only where a step is shorter
/// by more than rounding.
std::string fastest(const Plan& plan, const EvaluateSchedule& evaluate,
                    const std::vector<Candidate>& candidates) {
  if (candidates.size() == 1) return candidates.front().rows;
  const Candidate* best = nullptr;
  Seconds shortest = 0;
  for (const Candidate& candidate : candidates) {
    const Seconds time = time_of(plan, evaluate, candidate);
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
void add_others(const Plan& plan, const std::vector<ScheduleSettings>& searches,
                const EvaluatedStep& whole, const EvaluatedStep& halves,
                std::vector<Candidate>& candidates) {
  const auto limit = plan.schedule.memory_limit;
  const auto in_flight =
      std::min(plan.parallel.pipeline, static_cast<int>(plan.num_microbatches()));
  if (limit != 0 && limit < in_flight) return;
  if (plan.schedule.method == "zb-2p") {
    for (ScheduleSettings durations : searches) {
      durations.steps_overlap = plan.schedule.post_validation;
      add(rows_of(plan, "zb-1p", durations), candidates);
    }
  }
  candidates.push_back({rows_of(plan, "zb-h1", {}), halves.period});
  candidates.push_back({rows_of(plan, "1f1b", {}), whole.period});
}

std::string best_rows(const Plan& plan, const EvaluateSchedule& evaluate) {
  const bool splits = plan.schedule.method != "opportunistic";
  const auto whole = evaluate(by_method(plan, "1f1b"), true);
  const auto halves =
      splits ? evaluate(by_method(plan, "zb-h1"), true) : std::optional<EvaluatedStep>();
  if (!whole || (splits && !halves))
    return planned_rows(plan, {});  // compile() will say why it has no Program
  ActionTimes times = whole->times;
  if (halves) times.add(halves->times);
  const auto settings = searches(durations_of(times, mean_time), !times.sends_by_host.empty());
  std::vector<Candidate> candidates;
  for (const ScheduleSettings& durations : settings) add(planned_rows(plan, durations), candidates);
  if (splits) add_others(plan, settings, *whole, *halves, candidates);
  return fastest(plan, evaluate, candidates);
}

}  // namespace

std::variant<std::string, Infeasible> searched_rows(const Plan& plan, ScheduleSettings durations) {
  try {
    return planned_rows(plan, std::move(durations));
  } catch (const Unserved& unserved) {
    return unserved.why;
  }
}

std::variant<std::string, Infeasible> search_schedule(const Plan& plan,
                                                      const EvaluateSchedule& evaluate) {
  try {
    return best_rows(plan, evaluate);
  } catch (const Unserved& unserved) {
    return unserved.why;
  }
}

}  // namespace trainyard
