// Functions of one number, element by element: their derivatives are made of the operand, which is
// saved, whatever the result was.
#include <cmath>
#include <numbers>

#include "real/kernels/kernels.h"

namespace trainyard {

void affine(KernelCall& call) {
  at::Tensor y = call.out(0);
  at::mul_out(y, call.read(0), at::scalar_tensor(call.attrs->scale));
  if (call.attrs->shift != 0) y.add_(call.attrs->shift);
}

void affine_dx(KernelCall& call) {
  at::Tensor dx = call.out(0);
  at::mul_out(dx, call.read(0), at::scalar_tensor(call.attrs->scale));
}

void power(KernelCall& call) {
  at::Tensor y = call.out(0);
  at::pow_out(y, call.read(0), call.attrs->exponent);
}

void power_dx(KernelCall& call) {  // reads dy, x: p x^(p-1) dy
  const double exponent = call.attrs->exponent;
  at::Tensor dx = call.out(0);
  if (exponent == 0) {  // of x = 0 too
    dx.zero_();
    return;
  }
  at::pow_out(dx, call.read(1), exponent - 1);
  dx.mul_(exponent).mul_(call.read(0));
}

void exp(KernelCall& call) {
  at::Tensor y = call.out(0);
  at::exp_out(y, call.read(0));
}

void exp_dx(KernelCall& call) {  // reads dy, x
  at::Tensor dx = call.out(0);
  at::exp_out(dx, call.read(1)).mul_(call.read(0));
}

void log(KernelCall& call) {
  at::Tensor y = call.out(0);
  at::log_out(y, call.read(0));
}

void log_dx(KernelCall& call) {  // reads dy, x
  at::Tensor dx = call.out(0);
  at::div_out(dx, call.read(0), call.read(1));
}

void erf(KernelCall& call) {
  at::Tensor y = call.out(0);
  at::erf_out(y, call.read(0));
}

/// Reads dy, x: 2 / sqrt(pi) exp(-x^2) dy. The square of a 16-bit type is in fp32, whose
/// exponential would be off by as much as it is.
void erf_dx(KernelCall& call) {
  const at::Tensor& x = call.read(1);
  const at::ScalarType wide = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor dx = at::square(x.to(wide)).neg_().exp_();
  call.set(
      0,
      at::Tensor(dx).mul_(2 * std::numbers::inv_sqrtpi).mul_(call.read(0)).to(call.write_types[0]));
}

void sin(KernelCall& call) {
  at::Tensor y = call.out(0);
  at::sin_out(y, call.read(0));
}

void sin_dx(KernelCall& call) {  // reads dy, x
  at::Tensor dx = call.out(0);
  at::cos_out(dx, call.read(1)).mul_(call.read(0));
}

void cos(KernelCall& call) {
  at::Tensor y = call.out(0);
  at::cos_out(y, call.read(0));
}

void cos_dx(KernelCall& call) {  // reads dy, x
  at::Tensor dx = call.out(0);
  at::sin_out(dx, call.read(1)).mul_(call.read(0)).neg_();
}

void sigmoid(KernelCall& call) {
  at::Tensor y = call.out(0);
  at::sigmoid_out(y, call.read(0));
}

void sigmoid_dx(KernelCall& call) {  // reads dy, x
  at::Tensor dx = call.out(0);
  at::sigmoid_backward_out(dx, call.read(0), at::sigmoid(call.read(1)));
}

void silu(KernelCall& call) {
  at::Tensor y = call.out(0);
  at::silu_out(y, call.read(0));
}

void silu_dx(KernelCall& call) {  // reads dy, x
  at::Tensor dx = call.out(0);
  at::silu_backward_out(dx, call.read(0), call.read(1));
}

namespace {

/// Beyond this softplus is x itself, to rounding of fp32.
constexpr double kLinearBeyond = 20;

}  // namespace

void softplus(KernelCall& call) {
  at::Tensor y = call.out(0);
  at::softplus_out(y, call.read(0), 1, kLinearBeyond);
}

void softplus_dx(KernelCall& call) {  // reads dy, x
  at::Tensor dx = call.out(0);
  at::softplus_backward_out(dx, call.read(0), call.read(1), 1, kLinearBeyond);
}

void clamp(KernelCall& call) {
  at::Tensor y = call.out(0);
  at::clamp_out(y, call.read(0), call.attrs->low, call.attrs->high);
}

void clamp_dx(KernelCall& call) {  // reads dy, x; the ends themselves pass it on
  const at::Tensor& x = call.read(1);
  const at::Tensor outside =
      at::logical_or(at::lt(x, call.attrs->low), at::gt(x, call.attrs->high));
  call.out(0).copy_(call.read(0)).masked_fill_(outside, 0);
}

}  // namespace trainyard
