// One rank of a training run: its executor, fed with samples, step after step.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "engine/graph/graph.h"
#include "engine/program/program.h"
#include "real/data/samples.h"
#include "real/exec/rank_executor.h"
#include "real/exec/rank_plan.h"
#include "real/train/input_drawer.h"
#include "real/train/inputs_ahead.h"
#include "real/train/step_schedule.h"
#include "study/study.h"

namespace trainyard {

struct StepReport {
  std::int64_t step = 0;       // counts from 1
  std::optional<double> loss;  // mean over predicted tokens; on ranks of the last stage
  double gradient_norm = 0;    // before clipping
  double learning_rate = 0;
  bool updated = true;  // false: the gradients were not finite
  double loss_scale = 1;
  Seconds seconds = 0;  // that the step took on this rank
};

/// What a rank has run, and what is known since.
struct StepOutcome {
  bool is_void = false;  // it began with weights that have been corrected since: it is to run again
  std::vector<TraceRow> rows;  // if asked for
  /// Steps that are settled now. The one that has run, or, where steps are validated late
  /// (engine/passes/post_validation.h), the one before.
  std::optional<StepReport> settled;
};

class RankTrainer {
 public:
  /// Throws ConfigError where this version cannot train the study, BackendError where a peer fails.
  /// `drives`: as RankValues takes it.
  RankTrainer(const Program& program, const Graph& model, const Study& study,
              const Samples& samples, std::int64_t rank, Device& device, Transport& transport,
              std::string drives = {});

  /// The next step, or the same one again where the last run of it was void.
  StepOutcome step();
  /// Validates the step that waits for it, if one does, and corrects what it did: weights and state
  /// are then those of steps_done(). All ranks call it.
  std::optional<StepReport> settle();
  /// From now on steps are valid, whatever the gradients: for ranks that have no peers to ask.
  void assume_valid() { assumes_valid_ = true; }
  /// Runs of this trainer that were void.
  std::int64_t repeated() const { return repeated_; }

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
  /// A constant's numbers as they lie on this rank, in the type of `like`; nullptr: it is data.
  const at::Tensor* constant(const std::string& name, const at::Tensor& like);
  StepState state() const;
  StepReport judged(double norm_sq);

  /// The step that waits for its validation, and what it began with.
  struct Pending {
    StepState state;
    LossScale loss_scale;
    StepReport report;
  };

  const Study& study_;
  const Samples& samples_;
  std::map<std::string, Constant> contents_;     // of the model's constants
  std::map<std::string, at::Tensor> constants_;  // made at their first use
  RankPlan plan_;
  RankExecutor executor_;
  LossScale loss_scale_;
  std::int64_t steps_done_ = 0;
  std::int64_t updates_done_ = 0;
  std::int64_t repeated_ = 0;
  std::optional<Pending> pending_;
  bool assumes_valid_ = false;
  InputDrawer drawer_;
  std::unique_ptr<InputsAhead> ahead_;  // where the host runs ahead of its device
};

}  // namespace trainyard
