// The mean of the squares of x - target, over all elements of the step.
#include "real/kernels/kernels.h"

namespace trainyard {

namespace {

void give_gradient(KernelCall& call, const at::Tensor& plus, const at::Tensor& minus) {
  const double scale = 2 * call.state->loss_scale / call.loss_divisor;
  const at::ScalarType type = plus.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  call.give(at::sub(plus.to(type), minus).mul_(scale));
}

}  // namespace

void mse(KernelCall& call) {                    // reads x, target
  const bool only = !call.accumulates.empty();  // the only loss of a model is added up here
  const at::ScalarType type = only ? call.accumulates[0].scalar_type() : call.write_types[0];
  const at::Tensor apart = at::sub(call.read(0).to(type), call.read(1));
  const at::Tensor loss = at::sum(apart.square()).mul_(1.0 / call.loss_divisor);
  if (only) {
    call.accumulates[0].add_(loss);
  } else {
    call.set(0, loss.view({1}));
  }
}

void mse_dx(KernelCall& call) { give_gradient(call, call.read(0), call.read(1)); }
void mse_dw(KernelCall& call) { give_gradient(call, call.read(1), call.read(0)); }

}  // namespace trainyard
