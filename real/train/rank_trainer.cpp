#include "real/train/rank_trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "real/exec/thread_ranges.h"

namespace trainyard {

namespace {

LossDivisors divisors(const Study& study, const Samples& samples) {
  const auto batch = static_cast<double>(study.training.global_batch);
  if (study.model.family == Family::kOnnx) return {0, batch};
  return {batch * static_cast<double>(samples.predicted_per_sample()), batch};
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
      loss_scale_(study.training) {
  executor_.initialise(study);
}

template <typename Narrow, typename Number, typename Fill>
void RankTrainer::load_narrow(at::Tensor& out, const Fill& fill) {
  const std::int64_t samples = out.size(0);
  const std::int64_t each = out.numel() / samples;
  const at::Tensor values =
      at::empty(out.sizes(), at::TensorOptions(out.scalar_type()).pinned_memory(true));
  Narrow* to = values.mutable_data_ptr<Narrow>();
  constexpr std::int64_t kLeastNumbers = 1 << 14;  // of a thread
  for_thread_ranges(samples, kLeastNumbers / each, [&](std::int64_t begin, std::int64_t end) {
    Numbered<Number> sample(each);
    for (std::int64_t i = begin; i < end; ++i) {
      fill(i, std::span<Number>(sample));
      for (std::int64_t k = 0; k < each; ++k)
        to[i * each + k] = static_cast<Narrow>(static_cast<float>(sample[k]));
    }
  });
  out.copy_(values, /*non_blocking=*/true);
}

template <typename Number, typename Fill>
void RankTrainer::load_as(at::Tensor& out, const Fill& fill) {
  const std::int64_t samples = out.size(0);
  const std::int64_t each = out.numel() / samples;
  const auto fill_all = [&](std::span<Number> values) {
    constexpr std::int64_t kLeastNumbers = 1 << 14;  // of a thread
    for_thread_ranges(samples, kLeastNumbers / each, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        fill(i, values.subspan(static_cast<std::size_t>(i * each), static_cast<std::size_t>(each)));
    });
  };
  const auto type = at::TensorOptions(c10::CppTypeToScalarType<Number>::value);
  const auto size = static_cast<std::size_t>(out.numel());
  if (out.is_cpu()) {
    std::vector<Number> values(size);
    fill_all(values);
    out.copy_(at::from_blob(values.data(), out.sizes(), type));
    return;
  }
  // Memory that a GPU reads by itself: the host goes on, and LibTorch keeps it until it has been
  // read. Of the type that is wanted there: LibTorch would cast it into memory that is not so.
  if (out.scalar_type() == at::kHalf) return load_narrow<at::Half, Number>(out, fill);
  if (out.scalar_type() == at::kBFloat16) return load_narrow<at::BFloat16, Number>(out, fill);
  const at::Tensor values = at::empty(out.sizes(), type.pinned_memory(true));
  fill_all({values.mutable_data_ptr<Number>(), size});
  out.copy_(values, /*non_blocking=*/true);
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
  if (out.scalar_type() == at::kDouble) {
    load_as<double>(out, [&](std::int64_t i, std::span<double> sample) {
      samples_.fill_doubles(name, first + i, sample);
    });
  } else if (out.is_floating_point()) {
    load_as<float>(out, [&](std::int64_t i, std::span<float> sample) {
      samples_.fill_numbers(name, first + i, sample);
    });
  } else {
    load_as<std::int64_t>(out, [&](std::int64_t i, std::span<std::int64_t> sample) {
      samples_.fill(name, first + i, sample);
    });
  }
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
