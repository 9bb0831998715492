// silu of a causal depthwise convolution: each channel of x [B, S, C] in the latest tokens, of
// which each adds its channel times a weight [C, 1, 1, width]. Tokens before the first are 0.
#include <algorithm>

#include "real/cuda/cuda.h"
#include "real/cuda/state_space.h"
#include "real/kernels/kernels.h"

namespace trainyard {

namespace {

/// x of tokens `by` before, as far as there are any.
at::Tensor tokens_before(const at::Tensor& x, std::int64_t by) {
  return x.narrow(1, 0, x.size(1) - by);
}
at::Tensor tokens_from(const at::Tensor& x, std::int64_t by) {
  return x.narrow(1, by, x.size(1) - by);
}

/// What silu is taken of. Weights [C, width] of x's type, which is that of accumulation.
at::Tensor convolved(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
  at::Tensor y = b.expand(x.sizes()).contiguous();
  for (std::int64_t by = 0; by < std::min(w.size(1), x.size(1)); ++by)
    tokens_from(y, by).addcmul_(tokens_before(x, by), w.select(1, w.size(1) - 1 - by));
  return y;
}

at::Tensor columns(const at::Tensor& w, at::ScalarType type) {
  return w.view({w.size(0), w.size(3)}).to(type);
}

at::Tensor over_tokens(const at::Tensor& of) { return at::sum(of, c10::IntArrayRef{0, 1}); }

at::ScalarType wide(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

/// By a GPU's own kernels. False: there are none.
bool causal_conv1d_at_once(KernelCall& call) {
  const at::Tensor x = call.read(0).contiguous();
  const at::Tensor &w = call.read(1), &b = call.read(2);
  if (!contiguous_on_gpu({x, w, b}) || call.write_types[0] != x.scalar_type() ||
      !causal_conv1d_fits_cuda(w))
    return false;
  InOnePiece y(call.out(0));
  causal_conv1d_on_cuda(x, w, b, y.piece);
  y.give();
  return true;
}

bool causal_conv1d_b_at_once(KernelCall& call) {
  const at::Tensor dy = call.read(0).contiguous(), x = call.read(1).contiguous();
  const at::Tensor &w = call.read(2), &b = call.read(3);
  const at::Tensor &dw = call.accumulates[0], &db = call.accumulates[1];
  if (!contiguous_on_gpu({x, w, b, dw, db}) || dy.scalar_type() != x.scalar_type() ||
      !causal_conv1d_fits_cuda(w))
    return false;
  if (call.writes.empty()) {
    causal_conv1d_b_on_cuda(dy, x, w, b, {}, dw, db);
    return true;
  }
  if (call.write_types[0] != x.scalar_type()) return false;
  const InOnePiece dx(call.out(0));
  causal_conv1d_b_on_cuda(dy, x, w, b, dx.piece, dw, db);
  dx.give();
  return true;
}

}  // namespace

void causal_conv1d(KernelCall& call) {  // reads x, w, b
  if (call.read(0).is_cuda() && causal_conv1d_at_once(call)) return;
  const at::ScalarType type = wide(call.read(0));
  at::Tensor y =
      convolved(call.read(0).to(type), columns(call.read(1), type), call.read(2).to(type));
  call.set(0, at::silu_(y).to(call.write_types[0]));
}

void causal_conv1d_b(KernelCall& call) {  // reads dy, x, w, b
  if (call.read(0).is_cuda() && causal_conv1d_b_at_once(call)) return;
  const at::ScalarType type = wide(call.read(1));
  const at::Tensor x = call.read(1).to(type), w = columns(call.read(2), type);
  const at::Tensor dy =
      at::silu_backward(call.read(0).to(type), convolved(x, w, call.read(3).to(type)));
  const std::int64_t width = w.size(1);
  at::Tensor dw = at::zeros_like(w);
  at::Tensor dx = call.writes.empty() ? at::Tensor{} : at::zeros_like(dy);
  for (std::int64_t by = 0; by < std::min(width, x.size(1)); ++by) {
    const at::Tensor from = tokens_from(dy, by);
    dw.select(1, width - 1 - by).copy_(over_tokens(at::mul(from, tokens_before(x, by))));
    if (dx.defined()) tokens_before(dx, by).addcmul_(from, w.select(1, width - 1 - by));
  }
  call.accumulates[0].add_(dw.view(call.accumulates[0].sizes()));
  call.accumulates[1].add_(over_tokens(dy));
  if (dx.defined()) call.set(0, dx.to(call.write_types[0]));
}

}  // namespace trainyard
