// Runs a rank's step of the Program on a real device, op by op in the order in which its host
// issues them (issue_order.h). Which op waits for which is worked out before; when they run is the
// device's business.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/exec/trace.h"
#include "real/exec/device.h"
#include "real/exec/rank_plan.h"
#include "real/exec/rank_values.h"

namespace trainyard {

/// Fills input `name` of the microbatch whose first sample, counted through the whole run, is
/// `first`.
using LoadInput =
    std::function<void(const std::string& name, std::int64_t first_sample, at::Tensor& out)>;

struct StepResult {
  std::optional<double> loss;     // on ranks of the last stage
  std::optional<double> norm_sq;  // of the gradients, loss scale in
  std::optional<double>
      validated;  // norm_sq of the step before, where one waited for its validation
  bool is_void =
      false;  // that one was invalid: this one began with weights that were corrected since
  std::vector<TraceRow> rows;  // times in seconds of the steady clock
};

/// Where a rank is, for whoever watches it: written by it, read by another thread.
struct Whereabouts {
  std::atomic<std::int64_t> step{-1};
  std::atomic<std::int32_t> call{-1};
  std::atomic<std::int32_t> segment{-1};
  std::atomic<std::int32_t> op{-1};
};

/// What others may look at while a step runs; unset: nobody does.
struct ExecutorHooks {
  /// Each result of an op of the main stream: finds where numbers go bad.
  std::function<void(const ProgramOp&, Microbatch, const at::Tensor&)> result;
  /// This rank's part of a bucket's reduced gradient before the update, loss_scale times too large
  /// and not clipped.
  std::function<void(const BucketState&, const at::Tensor&)> gradient;
  /// An op of the main stream is about to run, or to be enqueued, and has been.
  std::function<void(const OpPlan&, bool done)> op;
  /// A call of the list has been issued, and on a CPU's main stream has ended.
  std::function<void(std::size_t call)> call_done;
};

class RankExecutor {
 public:
  /// Runs on `device`, driven by the thread that calls; both outlive the executor. `drives`: as
  /// RankValues takes it.
  RankExecutor(const RankPlan& plan, Device& device, const Study& study, LoadInput load,
               std::string drives = {});
  /// Waits for what a step that failed has left on the device.
  ~RankExecutor();
  RankExecutor(const RankExecutor&) = delete;
  RankExecutor& operator=(const RankExecutor&) = delete;

  /// Allocates pools, parameters and optimizer state: weights from their initial values, state
  /// zero.
  void initialise(const Study& study);

  /// One training step; `state.first_sample` is set per call. `before`: the state of the step
  /// before, if that waits for its validation; null: there is nothing to validate.
  StepResult run_step(const StepState& state, const StepState* before = nullptr);
  /// Only what validates the step before, and corrects it: as run_step(), without a loss or a norm
  /// of its own.
  StepResult run_validation(const StepState& before);

  RankValues& values() { return values_; }
  const RankPlan& plan() const { return plan_; }
  Whereabouts& whereabouts() { return whereabouts_; }
  /// The place in the order of issue of the op that is being issued.
  std::size_t issuing() const { return issued_; }
  void record_rows(bool on) { records_ = on; }
  ExecutorHooks& hooks() { return hooks_; }

 private:
  void begin(const StepState& state, const StepState* before, bool records);
  void issue_call(std::size_t call);
  void end_step();
  void settle_rows();
  void issue(const IssuedOp& issued);
  void launch(const OpPlan& plan, const IssuedOp& issued);
  bool left_out(const OpPlan& plan) const;
  void validate(const OpPlan& plan);
  void move_data(const OpPlan& plan, const IssuedOp& issued);
  void compute(const OpPlan& plan, const IssuedOp& issued);
  void run(const OpPlan& plan, const IssuedOp& issued);
  void run_kernel(const OpPlan& plan, KernelCall& call) const;
  void release(const OpPlan& plan, const IssuedOp& issued);
  void watch();
  std::int64_t first_sample(const OpPlan& plan, const IssuedOp& issued) const;
  const OpPlan& plan_of(const IssuedOp& issued) const {
    return plan_.segment(issued.segment)[issued.op];
  }

  const RankPlan& plan_;
  Device& device_;
  LoadInput load_;
  std::int64_t global_batch_;
  Numbered<std::int64_t> samples_before_;  // [microbatch]: of the replica, in the step
  RankValues values_;
  at::Tensor loss_, norm_sq_, norm_of_all_;  // on the host
  bool has_loss_ = false, has_norm_ = false;
  StepState state_;
  std::optional<StepState> before_;  // of the step that waits for its validation
  StepResult result_;
  bool in_step_ = false;     // or one has failed
  std::size_t issued_ = 0;   // ops of the order, the left out among them
  std::size_t watched_ = 0;  // ops before it have ended, as far as events tell
  bool records_ = false;
  struct Recorded {
    std::size_t launch = 0;  // of the device, in this step
    at::Tensor guard;        // of a kernel that has one: 1, or 0 where it is false; on the host
  };
  std::vector<Recorded> recorded_;  // [row]
  std::size_t launches_ = 0;
  ExecutorHooks hooks_;
  Whereabouts whereabouts_;
  KernelCall kernel_call_;
};

}  // namespace trainyard
