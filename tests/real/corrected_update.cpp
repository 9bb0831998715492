#include "tests/real/corrected_update.h"

#include "real/kernels/kernels.h"

namespace trainyard {

namespace {

/// A bucket on its way through kernels.
class Bucket {
 public:
  Bucket(const UpdateTrial& trial, const BucketNumbers& before, const std::vector<double>& gradient)
      : trial_(trial),
        type_(trial.fp32 ? at::kFloat : at::kDouble) {
    const auto size = static_cast<std::int64_t>(gradient.size());
    weights_ = tensor(before.weights);
    if (!trial.sgd) first_ = tensor(before.first), second_ = tensor(before.second);
    gradient_ = tensor(gradient).mul_(trial.loss_scale);
    decay_ = {{0, size / 2, true}, {size / 2, size, false}};
    state_.updates = trial.updates;
    state_.learning_rate = 0.01;
    state_.weight_decay = trial.weight_decay;
    state_.clip_norm = trial.clip_norm;
    state_.loss_scale = trial.loss_scale;
  }

  /// `front`: what the kernel reads before the gradient.
  void run(Kernel kernel, std::vector<at::Tensor> front, at::Tensor guard) {
    KernelCall call;
    call.attrs = &attrs_;
    call.state = &state_;
    call.has_norm = !front.empty();
    call.reads = std::move(front);
    call.reads.push_back(gradient_);
    if (!trial_.sgd) call.accumulates = {first_, second_};
    call.accumulates.push_back(weights_);
    call.decay = &decay_;
    call.guard = std::move(guard);
    call.immediate = !trial_.deferred;
    kernel(call);
  }

  at::Tensor norm_sq() const {
    const double scaled = trial_.norm * trial_.loss_scale;
    return at::full({1}, scaled * scaled, at::TensorOptions(type_));
  }
  at::Tensor flag() const {
    return at::full({1}, trial_.was_updated ? 1 : 0, at::TensorOptions(at::kByte));
  }

  BucketNumbers numbers() const { return {vector(weights_), vector(first_), vector(second_)}; }

 private:
  at::Tensor tensor(const std::vector<double>& numbers) const {
    at::Tensor out =
        at::empty({static_cast<std::int64_t>(numbers.size())}, at::TensorOptions(at::kDouble));
    std::copy(numbers.begin(), numbers.end(), out.mutable_data_ptr<double>());
    return out.to(type_);
  }
  static std::vector<double> vector(const at::Tensor& tensor) {
    if (!tensor.defined()) return {};
    const at::Tensor numbers = tensor.to(at::kDouble).contiguous();
    return {numbers.const_data_ptr<double>(), numbers.const_data_ptr<double>() + numbers.numel()};
  }

  const UpdateTrial& trial_;
  at::ScalarType type_;
  at::Tensor weights_, first_, second_, gradient_;
  std::vector<DecayRange> decay_;
  OpAttrs attrs_;
  StepState state_;
};

}  // namespace

BucketNumbers update_with_norm(const UpdateTrial& trial, const BucketNumbers& before,
                               const std::vector<double>& gradient) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  Bucket bucket(trial, before, gradient);
  bucket.run(trial.sgd ? sgd : adamw, {bucket.norm_sq()}, bucket.norm_sq());
  return bucket.numbers();
}

BucketNumbers update_and_correct(const UpdateTrial& trial, const BucketNumbers& before,
                                 const std::vector<double>& gradient) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  Bucket bucket(trial, before, gradient);
  bucket.run(trial.sgd ? sgd : adamw, {}, bucket.flag());
  bucket.run(trial.sgd ? correct_sgd : correct_adamw, {bucket.norm_sq(), bucket.flag()},
             at::Tensor{});
  return bucket.numbers();
}

}  // namespace trainyard
