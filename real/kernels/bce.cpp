// The mean binary cross entropy of logits x and targets t, over all elements of the step:
//   max(x, 0) - x t + ln(1 + e^-|x|)
#include "real/kernels/kernels.h"

namespace trainyard {

namespace {

double gradient_scale(const KernelCall& call) { return call.state->loss_scale / call.loss_divisor; }

at::ScalarType wide_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

}  // namespace

void bce(KernelCall& call) {                    // reads x, t
  const bool only = !call.accumulates.empty();  // the only loss of a model is added up here
  const at::ScalarType type = only ? call.accumulates[0].scalar_type() : call.write_types[0];
  const at::Tensor x = call.read(0).to(type);
  at::Tensor each = at::abs(x).neg_().exp_().log1p_().add_(at::clamp_min(x, 0));
  each.sub_(at::mul(x, call.read(1)));
  const at::Tensor loss = at::sum(each).mul_(1.0 / call.loss_divisor);
  if (only) {
    call.accumulates[0].add_(loss);
  } else {
    call.set(0, loss.view({1}));
  }
}

void bce_dx(KernelCall& call) {  // sigmoid(x) - t
  const at::Tensor& x = call.read(0);
  call.give(at::sigmoid(x.to(wide_type(x))).sub_(call.read(1)).mul_(gradient_scale(call)));
}

void bce_dw(KernelCall& call) {  // -x
  const at::Tensor& x = call.read(0);
  call.give(at::neg(x.to(wide_type(x))).mul_(gradient_scale(call)));
}

}  // namespace trainyard
