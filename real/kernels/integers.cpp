// Integers and conditions that a model computes from its data, and the rows that they look up.
#include "engine/base/error.h"
#include "real/kernels/kernels.h"

namespace trainyard {

namespace {

/// The index of each element of `rows` [.., M, H] in x [.., N, H]: no copy but of the index.
at::Tensor places(const at::Tensor& index, std::int64_t extent, at::IntArrayRef rows) {
  const at::Tensor from_begin = at::where(at::lt(index, 0), at::add(index, extent), index);
  return from_begin.unsqueeze(-1).expand(rows);
}

}  // namespace

void gather(KernelCall& call) {  // reads x, index
  const at::Tensor& x = call.read(0);
  at::Tensor y = call.out(0);
  at::gather_out(y, x, -2, places(call.read(1), x.size(-2), y.sizes()));
}

void gather_dx(KernelCall& call) {  // reads dy, index
  const at::Tensor& dy = call.read(0);
  at::Tensor dx = call.out(0).zero_();
  dx.scatter_add_(-2, places(call.read(1), dx.size(-2), dy.sizes()), dy);
}

void gather_dw(KernelCall& call) {
  at::Tensor& gradient = call.accumulates[0];
  const at::Tensor dy = call.read(0).to(gradient.scalar_type());
  gradient.scatter_add_(-2, places(call.read(1), gradient.size(-2), dy.sizes()), dy);
}

void scatter(KernelCall& call) {  // reads x, index, rows
  const at::Tensor& rows = call.read(2);
  at::Tensor y = call.out(0);
  y.copy_(call.read(0));
  const at::Tensor at = places(call.read(1), y.size(-2), rows.sizes());
  if (call.attrs->adds) {
    y.scatter_add_(-2, at, rows);
  } else {
    y.scatter_(-2, at, rows);
  }
}

void scatter_dx(KernelCall& call) {  // reads dy, index; what was written over has no gradient
  const at::Tensor& dy = call.read(0);
  if (call.attrs->adds) return call.give(dy);
  std::vector<std::int64_t> rows = dy.sizes().vec();
  rows.end()[-2] = call.read(1).size(-1);
  at::Tensor dx = dy.clone();
  dx.scatter_(-2, places(call.read(1), dy.size(-2), rows), 0);
  call.give(dx);
}

void scatter_dw(KernelCall& call) {  // reads dy, index
  const at::Tensor& dy = call.read(0);
  std::vector<std::int64_t> rows = dy.sizes().vec();
  rows.end()[-2] = call.read(1).size(-1);
  call.give(at::gather(dy, -2, places(call.read(1), dy.size(-2), rows)));
}

void combine(KernelCall& call) {
  const at::Tensor &a = call.read(0), &b = call.read(1);
  at::Tensor y = call.out(0);
  switch (call.attrs->combination) {
    case Combination::kEqual: y.copy_(at::eq(a, b)); return;
    case Combination::kLess: y.copy_(at::lt(a, b)); return;
    case Combination::kLessOrEqual: y.copy_(at::le(a, b)); return;
    case Combination::kAnd: y.copy_(at::logical_and(a, b)); return;
    case Combination::kOr: y.copy_(at::logical_or(a, b)); return;
    case Combination::kRemainder: at::remainder_out(y, a, b); return;
    case Combination::kQuotient: at::div_out(y, a, b, "trunc"); return;
    case Combination::kLeast: at::minimum_out(y, a, b); return;
    case Combination::kLargest: at::maximum_out(y, a, b); return;
  }
  bug("no such combination");
}

void argmax(KernelCall& call) { call.set(0, at::argmax(call.read(0), -1)); }

void topk(KernelCall& call) {
  const auto order = std::get<1>(at::sort(call.read(0), /*stable=*/true, -1, /*descending=*/true));
  at::Tensor y = call.out(0);
  y.copy_(order.narrow(-1, 0, y.size(-1)));
}

}  // namespace trainyard
