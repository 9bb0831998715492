// One rank of a training run: its executor, fed with samples, step after step.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "engine/config/study.h"
#include "engine/graph/graph.h"
#include "engine/program/program.h"
#include "real/data/samples.h"
#include "real/exec/rank_executor.h"
#include "real/exec/rank_plan.h"
#include "real/train/step_schedule.h"

namespace trainyard {

struct StepReport {
  std::int64_t step = 0;              // counts from 1
  std::optional<double> loss;         // mean over predicted tokens; on ranks of the last stage
  double gradient_norm = 0;           // before clipping
  double learning_rate = 0;
  bool updated = true;                // false: the gradients were not finite
  double loss_scale = 1;
  std::vector<TraceRow> rows;         // if asked for
};

class RankTrainer {
 public:
  /// Throws ConfigError where this version cannot train the study, BackendError where a peer fails.
  RankTrainer(const Program& program, const Graph& model, const Study& study, const Samples& samples,
              std::int64_t rank, Device& device, Transport& transport);

  /// The next step.
  StepReport step();

  std::int64_t steps_done() const { return steps_done_; }
  RankExecutor& executor() { return executor_; }
  LossScale& loss_scale() { return loss_scale_; }
  std::int64_t updates_done() const { return updates_done_; }
  void resume_at(std::int64_t steps_done, std::int64_t updates_done) {
    steps_done_ = steps_done;
    updates_done_ = updates_done;
  }
  /// Runs the step that was done last once more, whose update was not made, and stops with a
  /// BackendError at the first op whose result is not finite. Returns if there is none here.
  void find_bad_op();
  const Study& study() const { return study_; }

 private:
  void load(const std::string& name, std::int64_t first, at::Tensor& out);
  StepState state() const;

  const Study& study_;
  const Samples& samples_;
  RankPlan plan_;
  RankExecutor executor_;
  LossScale loss_scale_;
  std::int64_t steps_done_ = 0;
  std::int64_t updates_done_ = 0;
};

}  // namespace trainyard
