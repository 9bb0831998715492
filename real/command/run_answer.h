// What `trainyard train` answers at its end: on stdout, and summary.json in the run's folder.
#pragma once

#include <cstdint>
#include <optional>

#include "real/command/training_plan.h"
#include "real/train/rank_trainer.h"

namespace trainyard {

/// Samples and targets of a step, padding and masks included.
double tokens_per_step(const Study& study);

/// Totals of this start of the run.
struct RunTotals {
  std::int64_t steps = 0;    // runs of a step that was void are not counted
  std::int64_t skipped = 0;  // of them: without an update, since the scaled gradients overflowed
  Seconds seconds = 0;
  std::optional<double> loss;       // of the last step
  std::optional<double> best_loss;  // that any model can have on this data
};

void write_answer(const TrainingPlan& plan, bool as_json, const RankTrainer& trainer,
                  const RunTotals& totals);

}  // namespace trainyard
