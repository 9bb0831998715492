// RMS norm of each head of q and of k, by itself, in [q k v]; v stays. Of every head 1 / root mean
// square is saved, in accumulation type: [B, S, N + Nkv].
#include "real/kernels/kernels.h"
#include "real/kernels/norm_factor.h"

namespace trainyard {

namespace {

/// The heads of q and of k in a tensor as wide as [q k v]; their statistics have width 1.
struct Heads {
  at::Tensor q, k;
};

Heads heads_of(const at::Tensor& x, const OpAttrs& attrs, std::int64_t width) {
  const auto part = [&](std::int64_t first, std::int64_t count) {
    return x.narrow(-1, first * width, count * width).view({x.size(0), x.size(1), count, width});
  };
  return {part(0, attrs.heads), part(attrs.heads, attrs.kv_heads)};
}

void copy_values(const at::Tensor& from, at::Tensor& to, const OpAttrs& attrs) {
  const std::int64_t width = std::int64_t{attrs.kv_heads} * attrs.head_dim;
  const std::int64_t first = from.size(-1) - width;
  to.narrow(-1, first, width).copy_(from.narrow(-1, first, width));
}

void normalize(const OpAttrs& attrs, const at::Tensor& from, const at::Tensor& weight,
               const at::Tensor& to, const at::Tensor& statistics) {
  const auto type = statistics.scalar_type();
  const at::Tensor x = from.to(type);
  const at::Tensor rstd = at::mean(at::square(x), {-1}, /*keepdim=*/true).add_(attrs.eps).rsqrt_();
  to.copy_(at::mul(x, rstd).mul_(norm_factor(weight, attrs, type)));
  statistics.copy_(rstd);
}

/// With n = x r: dw = sum dy n; dx = r (dy w - n mean(dy w n)).
void normalize_backward(const OpAttrs& attrs, const at::Tensor& dy_of, const at::Tensor& x,
                        const at::Tensor& weight, const at::Tensor& rstd, at::Tensor& dw,
                        const at::Tensor& dx) {
  const auto type = rstd.scalar_type();
  const at::Tensor dy = dy_of.to(type);
  const at::Tensor n = at::mul(x.to(type), rstd);
  const at::Tensor dyn = at::mul(dy, n);
  dw.add_(at::sum(dyn, {0, 1, 2}));
  if (!dx.defined()) return;
  const at::Tensor w = norm_factor(weight, attrs, type);
  const at::Tensor mean = at::mean(at::mul(dyn, w), {-1}, /*keepdim=*/true);
  dx.copy_(at::mul(dy, w).sub_(at::mul(n, mean)).mul_(rstd));
}

}  // namespace

void head_norm(KernelCall& call) {
  const OpAttrs& attrs = *call.attrs;
  const at::Tensor& x = call.read(0);
  at::Tensor y = call.out(0);
  const Heads from = heads_of(x, attrs, attrs.head_dim), to = heads_of(y, attrs, attrs.head_dim);
  const Heads statistics = heads_of(call.out(1), attrs, 1);
  normalize(attrs, from.q, call.read(1), to.q, statistics.q);
  normalize(attrs, from.k, call.read(2), to.k, statistics.k);
  copy_values(x, y, attrs);
}

void head_norm_b(KernelCall& call) {
  // Reads dy, [q k v], the weights of q and k, 1 / rms.
  const OpAttrs& attrs = *call.attrs;
  const Heads dy = heads_of(call.read(0), attrs, attrs.head_dim);
  const Heads x = heads_of(call.read(1), attrs, attrs.head_dim);
  const Heads rstd = heads_of(call.read(4), attrs, 1);
  Heads dx;
  if (!call.writes.empty()) {
    at::Tensor all = call.out(0);
    dx = heads_of(all, attrs, attrs.head_dim);
    copy_values(call.read(0), all, attrs);
  }
  normalize_backward(attrs, dy.q, x.q, call.read(2), rstd.q, call.accumulates[0], dx.q);
  normalize_backward(attrs, dy.k, x.k, call.read(3), rstd.k, call.accumulates[1], dx.k);
}

}  // namespace trainyard
