// A batch of products: a [B, M, K] x b [B, K, N].
#include "real/kernels/kernels.h"

namespace trainyard {

namespace {

/// The gradient of an operand, a b: added in place where the types are equal.
void give_product(KernelCall& call, const at::Tensor& a, const at::Tensor& b) {
  if (call.accumulates.empty()) {
    at::Tensor out = call.out(0);
    at::bmm_out(out, a, b);
  } else if (call.accumulates[0].scalar_type() == a.scalar_type()) {
    call.accumulates[0].baddbmm_(a, b);
  } else {
    call.accumulates[0].add_(at::bmm(a, b));
  }
}

}  // namespace

void bmm(KernelCall& call) { give_product(call, call.read(0), call.read(1)); }

void bmm_dx(KernelCall& call) {  // reads dy, b
  give_product(call, call.read(0), call.read(1).transpose(1, 2));
}

void bmm_dw(KernelCall& call) {  // reads dy, a
  give_product(call, call.read(1).transpose(1, 2), call.read(0));
}

}  // namespace trainyard
