#include "real/train/rank_trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "engine/base/error.h"

namespace trainyard {

namespace {

LossDivisors divisors(const Study& study, const Samples& samples) {
  const auto batch = static_cast<double>(study.training.global_batch);
  if (study.model.family == Family::kOnnx) return {0, batch};
  return {batch * static_cast<double>(samples.predicted_per_sample()), batch};
}

/// All cores but the one that launches.
std::unique_ptr<InputsAhead> draw_ahead(const TrainingConfig& training, const InputDrawer& drawer,
                                        bool pinned) {
  const std::int64_t threads = std::max(1, at::get_num_threads() - 1);
  return std::make_unique<InputsAhead>(
      [&drawer, threads](const WantedInput& wanted, void* to, const std::atomic<bool>& given_up) {
        drawer.draw(wanted, to, threads, &given_up);
      },
      InputsAhead::Limits{.per_step = training.global_batch,
                          .end = training.global_batch * training.steps,
                          .pinned = pinned});
}

/// The sign of a NaN says nothing, but would be printed.
double without_sign_of_nan(double value) {
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

}  // namespace

RankTrainer::RankTrainer(const Program& program, const Graph& model, const Study& study,
                         const Samples& samples, std::int64_t rank, Device& device,
                         Transport& transport, std::string drives)
    : study_(study),
      samples_(samples),
      contents_(model.constants),
      plan_(program, model, study, rank, divisors(study, samples), transport),
      executor_(
          plan_, device, study,
          [this](const std::string& name, std::int64_t first, at::Tensor& out) {
            load(name, first, out);
          },
          std::move(drives)),
      loss_scale_(study.training),
      drawer_(samples) {
  executor_.initialise(study);
  // A host that runs its ops itself would only share its cores.
  if (!device.immediate()) ahead_ = draw_ahead(study.training, drawer_, device.where().is_cuda());
}

const at::Tensor* RankTrainer::constant(const std::string& name, const at::Tensor& like) {
  if (const auto known = constants_.find(name); known != constants_.end()) return &known->second;
  const auto content = contents_.find(name);
  if (content == contents_.end()) return nullptr;
  at::Tensor numbers;
  const auto make = [&]<typename Number>(Number) {
    Numbered<Number> values(like.numel());
    content->second->fill(std::span<Number>(values));
    numbers = at::from_blob(values.data(), like.sizes(),
                            at::TensorOptions(c10::CppTypeToScalarType<Number>::value))
                  .to(like.options(), /*non_blocking=*/false, /*copy=*/true);
  };
  like.is_floating_point() ? make(double{}) : make(std::int64_t{});
  return &constants_.emplace(name, std::move(numbers)).first->second;
}

void RankTrainer::load(const std::string& name, std::int64_t first, at::Tensor& out) {
  if (const at::Tensor* numbers = constant(name, out)) {
    out.copy_(*numbers);
    return;
  }
  const WantedInput wanted = InputDrawer::wanted(name, first, out);
  at::Tensor drawn;
  if (ahead_) drawn = ahead_->take(wanted);
  if (!drawn.defined()) {
    drawn = host_memory(wanted, out.is_cuda());
    drawer_.draw(wanted, drawn.mutable_data_ptr(), at::get_num_threads());
  }
  // In the type that is wanted there: LibTorch would cast another into memory that a GPU does not
  // read by itself. The host goes on, and LibTorch keeps it until it has been read.
  out.copy_(drawn, /*non_blocking=*/true);
}

StepState RankTrainer::state() const {
  const TrainingConfig& training = study_.training;
  StepState state;
  state.step = steps_done_;
  state.updates = updates_done_;
  // A step of documents that predict nothing has a loss of 0, as Megatron-LM has it.
  state.predicted = static_cast<double>(std::max<std::int64_t>(
      1, samples_.num_predicted(steps_done_ * training.global_batch, training.global_batch)));
  state.learning_rate = learning_rate(training.lr, steps_done_, training.steps);
  state.beta1 = training.betas[0];
  state.beta2 = training.betas[1];
  state.eps = training.eps;
  state.weight_decay = training.weight_decay;
  state.clip_norm = assumes_valid_ && plan_.validates_late() ? 0 : training.clip_norm;
  state.loss_scale = loss_scale_.value();
  return state;
}

StepOutcome RankTrainer::step() {
  const StepState now = state();
  const auto begin = std::chrono::steady_clock::now();
  StepResult result = executor_.run_step(now, pending_ ? &pending_->state : nullptr);
  StepOutcome run;
  run.rows = std::move(result.rows);
  run.is_void = result.is_void;
  if (result.validated) run.settled = judged(*result.validated);
  if (run.is_void) {
    ++repeated_;
    return run;
  }
  StepReport report;
  report.step = ++steps_done_;
  if (result.loss) report.loss = without_sign_of_nan(*result.loss);
  report.learning_rate = now.learning_rate;
  report.loss_scale = now.loss_scale;
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  pending_ = Pending{now, loss_scale_, std::move(report)};
  // What is not known yet is taken to be well.
  ++updates_done_;
  loss_scale_.step_done(true);
  if (plan_.validates_late()) {
    if (assumes_valid_) pending_.reset();
    return run;
  }
  check(result.norm_sq.has_value(), "the Program of a training run takes the gradient norm");
  run.settled = judged(*result.norm_sq);
  return run;
}

std::optional<StepReport> RankTrainer::settle() {
  if (!pending_) return std::nullopt;
  return judged(*executor_.run_validation(pending_->state).validated);
}

/// The report of the step that waited for its norm. Where that is not finite, there was no update.
StepReport RankTrainer::judged(double norm_sq) {
  Pending step = std::move(*pending_);
  pending_.reset();
  step.report.gradient_norm = without_sign_of_nan(std::sqrt(norm_sq) / step.state.loss_scale);
  step.report.updated = std::isfinite(norm_sq) || !plan_.guards_update();
  if (!step.report.updated) {
    updates_done_ = step.state.updates;
    loss_scale_ = step.loss_scale;
    loss_scale_.step_done(false);
  }
  return std::move(step.report);
}

void RankTrainer::find_bad_op() {
  const Program& program = plan_.program();
  executor_.hooks().result = [&](const ProgramOp& op, Microbatch mb, const at::Tensor& result) {
    if (!at::isFloatingType(result.scalar_type()) || at::isfinite(result).all().item<bool>())
      return;
    const std::string& module = program.modules[op.module];
    throw BackendError("step " + std::to_string(steps_done_) + ": " + op_name(op.kind, op.part) +
                       (module.empty() ? "" : " of " + module) +
                       (mb < 0 ? "" : ", microbatch " + std::to_string(mb)) +
                       ": its result is not finite, and all before it were");
  };
  --steps_done_;
  const StepState again = state();
  ++steps_done_;
  executor_.run_step(again);
  executor_.hooks().result = nullptr;
}

}  // namespace trainyard
