// GEMMs with weights: x [.., K], w [N, K], b [N] -> x w^T + b [.., N].
#include "real/kernels/fp8.h"
#include "real/kernels/kernels.h"
#include "real/kernels/matrix_rows.h"
#include "real/kernels/weight_gradient.h"

namespace trainyard {

namespace {

/// Adds the sum over the rows of dy [M, N] to the bias gradient [N].
void add_bias_gradient(const at::Tensor& dy, at::Tensor gradient) {
  gradient.add_(at::sum(dy, {0}, /*keepdim=*/false, gradient.scalar_type()));
}

}  // namespace

void linear(KernelCall& call) {
  if (is_fp8_product(call)) return fp8_linear(call);
  const at::Tensor x = rows_of(call.read(0));
  const at::Tensor w = call.read(1).t();
  at::Tensor y = call.out(0);
  at::Tensor flat = y.view({-1, y.size(-1)});
  const double scale = call.attrs->scale;
  if (call.attrs->has_bias) {
    at::addmm_out(flat, call.read(2), x, w, /*beta=*/1, /*alpha=*/scale);
  } else {
    at::mm_out(flat, x, w);
    if (scale != 1) flat.mul_(scale);
  }
}

void linear_dx(KernelCall& call) {
  if (is_fp8_product(call)) return fp8_linear_dx(call);
  const at::Tensor dy = rows_of(call.read(0));
  at::Tensor dx = call.out(0);
  at::Tensor flat = dx.view({-1, dx.size(-1)});
  at::mm_out(flat, dy, call.read(1));
  if (call.attrs->scale != 1) flat.mul_(call.attrs->scale);
}

void linear_dw(KernelCall& call) {
  if (is_fp8_product(call)) return fp8_linear_dw(call);
  const at::Tensor dy = rows_of(call.read(0));
  const at::Tensor x = rows_of(call.read(1));
  at::Tensor gradient = weight_gradient(call, 0);
  if (gradient.scalar_type() == x.scalar_type()) {
    gradient.addmm_(dy.t(), x, /*beta=*/1, /*alpha=*/call.attrs->scale);
  } else if (gradient.is_cuda() && gradient.scalar_type() == at::kFloat) {
    // 16-bit operands added to an fp32 gradient by the GEMM itself: no CPU has that.
    at::addmm_out(gradient, gradient, dy.t(), x, at::kFloat, /*beta=*/1,
                  /*alpha=*/call.attrs->scale);
  } else {
    gradient.add_(at::mm(dy.t(), x), /*alpha=*/call.attrs->scale);
  }
  if (call.accumulates.size() > 1 || call.write_types.size() > 1)
    add_bias_gradient(dy, weight_gradient(call, 1));
}

void add_bias(KernelCall& call) {
  at::Tensor y = call.out(0);
  at::add_out(y, call.read(0), call.read(1));
}

void add_bias_dw(KernelCall& call) {
  add_bias_gradient(rows_of(call.read(0)), call.accumulates[0]);
}

}  // namespace trainyard
