// Batches of products: a [.., M, K] x b [.., K, N].
#include "real/kernels/kernels.h"

namespace trainyard {

namespace {

/// With one dim for the batch.
at::Tensor matrices(const at::Tensor& x) { return x.view({-1, x.size(-2), x.size(-1)}); }

/// The gradient of an operand, a b: added in place where the types are equal.
void give_product(KernelCall& call, const at::Tensor& a, const at::Tensor& b) {
  if (call.accumulates.empty()) {
    at::Tensor out = matrices(call.out(0));
    at::bmm_out(out, a, b);
    return;
  }
  const at::Tensor sum = matrices(call.accumulates[0]);
  if (sum.scalar_type() == a.scalar_type()) {
    sum.baddbmm_(a, b);
  } else {
    sum.add_(at::bmm(a, b));
  }
}

}  // namespace

void bmm(KernelCall& call) { give_product(call, matrices(call.read(0)), matrices(call.read(1))); }

void bmm_dx(KernelCall& call) {  // reads dy, b
  give_product(call, matrices(call.read(0)), matrices(call.read(1)).transpose(1, 2));
}

void bmm_dw(KernelCall& call) {  // reads dy, a
  give_product(call, matrices(call.read(1)).transpose(1, 2), matrices(call.read(0)));
}

}  // namespace trainyard
