// What a training says of itself on stderr while it runs: by the rank that hears the loss.
#pragma once

#include <chrono>
#include <cstdint>

#include "real/command/training_plan.h"
#include "real/data/samples.h"
#include "real/launch/rank_environment.h"
#include "real/train/rank_trainer.h"

namespace trainyard {

/// Data, ranks, program; where it goes on, behind which step.
void say_what_runs(const TrainingPlan& plan, const RankEnvironment& environment,
                   const Samples& samples, std::int64_t steps_done);

class TrainingProgress {
 public:
  /// A line about the first and the last step, and in between one a second at most.
  void show(const Study& study, const StepReport& report);

 private:
  std::chrono::steady_clock::time_point shown_;
};

}  // namespace trainyard
