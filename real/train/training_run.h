// One rank's part of `trainyard train`: from the compiled study to the last step, with checkpoints, losses.csv
// and traces.
#pragma once

#include "real/launch/rank_environment.h"
#include "real/train/training_plan.h"

namespace trainyard {

/// Runs this process's rank to the end. Throws ConfigError and BackendError.
void run_rank(const TrainingPlan& plan, const TrainOptions& options, const RankEnvironment& environment);

}  // namespace trainyard
