// When every action of a schedule starts, and whether it can run at all.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "engine/base/error.h"
#include "engine/schedule/pipeline_schedule.h"

namespace trainyard {

/// Durations of one stage's actions, in any unit. A forward and a backward that run together take
/// as long as one after the other, and both end then.
struct ActionDurations {
  double forward = 1;
  double backward = 2;
  double input = 1;
  double weight = 1;
  double recompute = 1;
};

double duration(const Action& action, const ActionDurations& durations);

/// Each action as early as its rank and its producers allow.
struct ScheduleTiming {
  Numbered<std::vector<double>> starts;  // [rank][position]
  Numbered<double> idle;                 // [rank]: makespan less work
  Numbered<double> span_idle;  // [rank]: the same between its first start and its last end
  double makespan = 0;
};

/// Why a schedule cannot run, and at which action (a position past the last: at the rank's end).
struct ScheduleFault {
  std::string reason;
  std::int64_t rank = 0;
  std::size_t position = 0;
};

/// An action that is out of range, on another rank than its stage, twice or missing, a pair that is
/// none, a recompute behind its backward, or every rank that is stuck and what it waits for.
/// nullopt: the schedule runs to its end.
std::optional<ScheduleFault> find_fault(const PipelineSchedule& schedule);

/// `of_stage`: [stage]. `transfer`: from the end of an action to when a stage on another rank has
/// its output. Infeasible: the reason of find_fault().
std::variant<ScheduleTiming, Infeasible> time_schedule(const PipelineSchedule& schedule,
                                                       const Numbered<ActionDurations>& of_stage,
                                                       double transfer);
/// The same durations on every stage, no transfer time.
std::variant<ScheduleTiming, Infeasible> time_schedule(const PipelineSchedule& schedule,
                                                       const ActionDurations& durations);

/// Most microbatches with F done and B (or W) not yet done, at any one time on this pipeline rank.
int peak_in_flight(const PipelineSchedule& schedule, int pipeline_rank);
/// [stage]: the same of each stage by itself, at least 1.
Numbered<int> stages_in_flight(const PipelineSchedule& schedule);

}  // namespace trainyard
