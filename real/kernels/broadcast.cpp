// Sums, and ops of operands whose dims of one element stand for any: the gradient of such an
// operand is summed over what it was repeated along, in the type in which it is accumulated.
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

void sum(KernelCall& call) {
  const std::vector<std::int64_t> dims(call.attrs->dims.begin(), call.attrs->dims.end());
  call.set(0, at::sum(call.read(0), dims));
}

void sum_dx(KernelCall& call) {
  const at::Tensor& dy = call.read(0);
  const at::IntArrayRef to = wanted_extents(call);
  call.give(dy.reshape(kept_extents(dy, call.attrs->dims, std::ssize(to))).expand(to));
}

}  // namespace trainyard
