// What a training run measured of its steps: measured.json in the run's folder. Raw times of every
// instruction of every recorded step on every rank; what follows from them is run_comparison.h's
// matter.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/exec/trace.h"
#include "engine/program/program.h"

namespace trainyard {

struct MeasuredStep {
  std::int64_t step = 0;  // counts from 1
  bool after_checkpoint =
      false;  // a checkpoint was written in front of it, or it is the run's first
  std::vector<RankTrace> ranks;  // all, ascending; rows in issue order, times on one clock
  bool after_void = false;       // it ran before, and that was void (passes/post_validation.h)
};

struct RunMeasurement {
  std::string program_digest;
  std::string device;      // cpu | cuda
  std::int64_t cores = 0;  // of the machine of rank 0
  std::int64_t ranks_on_machine = 0;
  std::int64_t threads_per_rank = 0;
  std::vector<MeasuredStep> steps;  // ascending
};

/// Seconds from the end of the step before to the end of steps[i], on whichever ranks were last; of
/// a step that has no recorded one right before it, or a checkpoint or a void step between, from
/// its first issue.
Seconds step_time(const RunMeasurement& run, std::size_t i);
/// Indices of the steps whose time runs from the step before; of all, where there are none.
std::vector<std::size_t> timed_steps(const RunMeasurement& run);
/// Timed steps without the fastest and the slowest quarter of them (rounded down): means over
/// these add up to a typical step, where medians of single instructions would leave out that some
/// are always late.
std::vector<std::size_t> middle_steps(const RunMeasurement& run);
/// Median over timed_steps().
Seconds median_step_time(const RunMeasurement& run);
/// Timed step that took nearest to the median.
std::size_t median_step(const RunMeasurement& run);

/// The instructions of a step in the order in which a rank of this list issues them; times are
/// zero. Without those of phase V: the step in which they run is void.
std::vector<TraceRow> issued_rows(const Program& program, const RankClass& list);

/// More ranks on a machine than it has cores: who runs when is the scheduler's choice.
bool oversubscribed(const RunMeasurement& run);

/// Times in whole nanoseconds, of all of issued_rows(): null of those that the run has no row of
/// (program/no_ops.h).
void write_run_measurement(const RunMeasurement& run, const Program& program,
                           const std::function<void(std::string_view)>& sink);

/// What write_run_measurement() wrote, of a run of `program`. Throws ConfigError where the file
/// cannot be read, is of another Program, or has not one time for every instruction.
RunMeasurement read_run_measurement(const std::string& path, const Program& program);

}  // namespace trainyard
