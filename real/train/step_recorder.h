// The steps of a run that are recorded: measured.json, and one of them as trace.json in the same
// rows as the simulator's.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/validate/run_measurement.h"
#include "engine/exec/trace.h"
#include "engine/program/program.h"
#include "real/comm/rendezvous.h"

namespace trainyard {

/// One rank's share. The last steps of a run are recorded, at most 16, without its first two where
/// there are others, and fewer where a step has so many instructions that they would fill memory.
class StepRecorder {
 public:
  /// Records a run from step `first` + 1 to step `last`, each with this rank's `instructions`.
  StepRecorder(std::int64_t first, std::int64_t last, std::size_t instructions);

  bool wants(std::int64_t step) const { return step >= begin_; }

  /// As MeasuredStep, of this rank.
  struct Step {
    std::int64_t step = 0;
    bool after_checkpoint = false;
    bool after_void = false;
    std::vector<TraceRow> rows;
  };
  void add(Step step) { steps_.push_back(std::move(step)); }
  const std::vector<Step>& steps() const { return steps_; }

 private:
  std::int64_t begin_ = 0;
  std::vector<Step> steps_;
};

/// All ranks call it; rank 0 writes `folder`/measured.json and `folder`/trace.json, the step of
/// median length. Times are those of rank 0's clock. `machine`: all of RunMeasurement but its
/// steps.
void save_steps(const std::string& folder, const Program& program, std::int64_t rank,
                RunMeasurement machine, const StepRecorder& recorder, Rendezvous& rendezvous);

}  // namespace trainyard
