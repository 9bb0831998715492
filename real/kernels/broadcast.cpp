// Sums, and ops of several operands whose dims of one element stand for any: the gradient of such
// an operand is summed over what it was repeated along, in the type in which it is accumulated.
#include <algorithm>

#include "real/kernels/kernels.h"

namespace trainyard {

namespace {

/// The operand whose gradient is asked for has these extents.
at::IntArrayRef wanted_extents(const KernelCall& call) {
  return call.accumulates.empty() ? at::IntArrayRef(call.write_shapes[0])
                                  : call.accumulates[0].sizes();
}

/// Sums `whole` to the operand's extents and hands it over.
void give_summed(KernelCall& call, const at::Tensor& whole) {
  const at::IntArrayRef to = wanted_extents(call);
  const std::int64_t missing = whole.dim() - std::ssize(to);
  std::vector<std::int64_t> dims;
  for (std::int64_t d = 0; d < whole.dim(); ++d) {
    if (d < missing || (to[d - missing] == 1 && whole.size(d) != 1)) dims.push_back(d);
  }
  if (dims.empty()) return call.give(whole.reshape(to));
  const at::ScalarType type =
      call.accumulates.empty() ? call.write_types[0] : call.accumulates[0].scalar_type();
  call.give(at::sum(whole, dims, /*keepdim=*/true, type).reshape(to));
}

/// y's extents with one element left of each dim that the op sums.
std::vector<std::int64_t> kept_extents(const at::Tensor& y, const DimList& dims,
                                       std::int64_t num_dims) {
  std::vector<std::int64_t> out;
  const bool keepdim = y.dim() == num_dims;
  std::int64_t at = 0;
  for (std::int64_t d = 0; d < num_dims; ++d) {
    const bool gone = std::count(dims.begin(), dims.end(), d) > 0;
    out.push_back(gone ? 1 : y.size(at));
    if (!gone || keepdim) ++at;
  }
  return out;
}

}  // namespace

void add_backward(KernelCall& call) { give_summed(call, call.read(0)); }

void mul(KernelCall& call) {
  at::Tensor y = call.out(0);
  at::mul_out(y, call.read(0), call.read(1));
}

void mul_backward(KernelCall& call) {  // reads dy, the other factor
  give_summed(call, at::mul(call.read(0), call.read(1)));
}

void sub(KernelCall& call) {
  at::Tensor y = call.out(0);
  at::sub_out(y, call.read(0), call.read(1));
}

void sub_dw(KernelCall& call) { give_summed(call, at::neg(call.read(0))); }

void div(KernelCall& call) {
  at::Tensor y = call.out(0);
  at::div_out(y, call.read(0), call.read(1));
}

void div_dx(KernelCall& call) {  // reads dy, b
  give_summed(call, at::div(call.read(0), call.read(1)));
}

void div_dw(KernelCall& call) {  // reads dy, a, b: -dy a / b^2
  const at::Tensor& b = call.read(2);
  give_summed(call, at::mul(call.read(0), call.read(1)).div_(b).div_(b).neg_());
}

void where(KernelCall& call) {  // reads the condition, a, b
  at::Tensor y = call.out(0);
  at::where_out(y, call.read(0).to(at::kBool), call.read(1), call.read(2));
}

void where_dx(KernelCall& call) {  // reads dy, the condition
  give_summed(call, at::masked_fill(call.read(0), at::eq(call.read(1), 0), 0));
}

void where_dw(KernelCall& call) {
  give_summed(call, at::masked_fill(call.read(0), call.read(1).to(at::kBool), 0));
}

void sum(KernelCall& call) {
  const std::vector<std::int64_t> dims(call.attrs->dims.begin(), call.attrs->dims.end());
  call.set(0, at::sum(call.read(0), dims));
}

void cumsum(KernelCall& call) {
  at::Tensor y = call.out(0);
  at::cumsum_out(y, call.read(0), call.attrs->dim);
}

void cumsum_dx(KernelCall& call) {  // sums from each index on
  const std::int64_t dim = call.attrs->dim;
  call.set(0, at::flip(at::cumsum(at::flip(call.read(0), {dim}), dim), {dim}));
}

void sum_dx(KernelCall& call) {
  const at::Tensor& dy = call.read(0);
  const at::IntArrayRef to = wanted_extents(call);
  call.give(dy.reshape(kept_extents(dy, call.attrs->dims, std::ssize(to))).expand(to));
}

}  // namespace trainyard
