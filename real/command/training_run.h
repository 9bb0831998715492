// One rank's part of `trainyard train`: from the compiled study to the last step, with checkpoints,
// losses.csv and traces.
#pragma once

#include <string>

#include "real/command/training_plan.h"
#include "real/launch/rank_environment.h"

namespace trainyard {

struct RankEnd {
  int signal = 0;    // that ended the run; 0: none
  std::string kept;  // of rank 0: what is left of it
};

/// Runs this process's rank to the end. Throws ConfigError and BackendError. Where the run was told
/// to end by a signal: to the end of the running step, with a checkpoint of it.
RankEnd run_rank(const TrainingPlan& plan, const TrainOptions& options,
                 const RankEnvironment& environment);

}  // namespace trainyard
