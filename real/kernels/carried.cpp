// Ops that carry elements elsewhere and compute nothing: views where they have to be copied, other
// orders of dims and indices, ranges and parts. Which dim, the attributes say; all other extents
// are those of the operands and results.
#include "real/kernels/kernels.h"

namespace trainyard {

namespace {

std::vector<std::int64_t> order(const OpAttrs& attrs) {
  return {attrs.dims.begin(), attrs.dims.end()};
}

/// x with index i of the op's dim at i + by, or back.
void give_rolled(KernelCall& call, bool onward) {
  const at::Tensor& x = call.read(0);
  const int dim = call.attrs->dim;
  const std::int64_t all = x.size(dim), by = call.attrs->by % all;
  const std::int64_t cut = onward ? by : all - by;
  const auto carry = [&](at::Tensor to, auto put) {
    put(to.narrow(dim, 0, cut), x.narrow(dim, all - cut, cut));
    put(to.narrow(dim, cut, all - cut), x.narrow(dim, 0, all - cut));
  };
  if (call.accumulates.empty()) {
    carry(call.out(0), [](at::Tensor to, const at::Tensor& from) { to.copy_(from); });
  } else {
    carry(call.accumulates[0], [](at::Tensor to, const at::Tensor& from) { to.add_(from); });
  }
}

}  // namespace

void view(KernelCall& call) {
  const at::Tensor& to = call.accumulates.empty() ? call.out(0) : call.accumulates[0];
  call.give(call.read(0).reshape(to.sizes()));
}

void permute(KernelCall& call) { call.out(0).copy_(call.read(0).permute(order(*call.attrs))); }

void permute_dx(KernelCall& call) {
  const std::vector<std::int64_t> there = order(*call.attrs);
  std::vector<std::int64_t> back(there.size());
  for (std::size_t i = 0; i < there.size(); ++i)
    back.begin()[there[i]] = static_cast<std::int64_t>(i);
  call.give(call.read(0).permute(back));
}

void roll(KernelCall& call) { give_rolled(call, true); }
void roll_dx(KernelCall& call) { give_rolled(call, false); }

void flip(KernelCall& call) { call.give(at::flip(call.read(0), {call.attrs->dim})); }

void split(KernelCall& call) {
  const int dim = call.attrs->dim;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < call.writes.size(); ++i) {
    at::Tensor part = call.out(i);
    part.copy_(call.read(0).narrow(dim, begin, part.size(dim)));
    begin += part.size(dim);
  }
}

void narrow(KernelCall& call) {
  at::Tensor y = call.out(0);
  y.copy_(call.read(0).narrow(call.attrs->dim, call.attrs->begin, y.size(call.attrs->dim)));
}

void narrow_dx(KernelCall& call) {
  const at::Tensor& dy = call.read(0);
  at::Tensor dx = call.out(0).zero_();
  dx.narrow(call.attrs->dim, call.attrs->begin, dy.size(call.attrs->dim)).copy_(dy);
}

void narrow_dw(KernelCall& call) {
  const at::Tensor& dy = call.read(0);
  call.accumulates[0].narrow(call.attrs->dim, call.attrs->begin, dy.size(call.attrs->dim)).add_(dy);
}

void zero_pad(KernelCall& call) {
  const at::Tensor& x = call.read(0);
  const int dim = call.attrs->dim;
  at::Tensor y = call.out(0);
  const std::int64_t begin = call.attrs->begin, end = begin + x.size(dim);
  y.narrow(dim, 0, begin).zero_();
  y.narrow(dim, begin, x.size(dim)).copy_(x);
  y.narrow(dim, end, y.size(dim) - end).zero_();
}

void zero_pad_dx(KernelCall& call) {
  at::Tensor dx = call.out(0);
  const int dim = call.attrs->dim;
  dx.copy_(call.read(0).narrow(dim, call.attrs->begin, dx.size(dim)));
}

void concat(KernelCall& call) {
  const int dim = call.attrs->dim;
  at::Tensor y = call.out(0);
  std::int64_t begin = 0;
  for (const at::Tensor& part : call.reads) {
    y.narrow(dim, begin, part.size(dim)).copy_(part);
    begin += part.size(dim);
  }
}

}  // namespace trainyard
