// Normalisation over the last dim. Statistics are saved in accumulation type: mean and 1 /
// deviation of each row [.., 2], or 1 / root mean square [.., 1].
#include <optional>

#include "real/cuda/cuda.h"
#include "real/kernels/kernels.h"
#include "real/kernels/norm_factor.h"

namespace trainyard {

namespace {

/// In which type LibTorch takes the weights of a layer norm: on a CPU that of the statistics, which
/// makes it keep those in it too; on a GPU that of x, and the statistics are wide anyway.
at::ScalarType weight_type(const at::Tensor& x, at::ScalarType statistics) {
  return x.is_cpu() ? statistics : x.scalar_type();
}

std::optional<at::Tensor> bias_of(const KernelCall& call, at::ScalarType type) {
  if (call.attrs->unbiased) return std::nullopt;
  return call.read(2).to(type);
}

at::ScalarType wide_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

/// By a GPU's own kernel, layer and RMS norms alike. False: there is none.
bool norm_at_once(KernelCall& call, const at::Tensor& bias) {
  const at::Tensor &x = call.read(0), &w = call.read(1);
  if (!contiguous_on_gpu({x, w}) || call.write_types[0] != x.scalar_type() ||
      call.write_types[1] != wide_type(x))
    return false;
  at::Tensor y = call.out(0), statistics = call.out(1);
  if (!y.is_contiguous() || !statistics.is_contiguous() || !norm_fits_cuda({x, y})) return false;
  norm_on_cuda(x, w, bias, call.attrs->eps, call.attrs->shift, y, statistics);
  return true;
}

/// The same backward; reads dy, x, w, statistics.
bool norm_b_at_once(KernelCall& call, bool biased) {
  const at::Tensor dy = call.read(0).contiguous();
  const at::Tensor &x = call.read(1), &w = call.read(2), &statistics = call.read(3);
  const at::Tensor &dw = call.accumulates[0], db = biased ? call.accumulates[1] : at::Tensor{};
  if (!contiguous_on_gpu({x, w, statistics, dw}) || statistics.scalar_type() != wide_type(x) ||
      dy.scalar_type() != x.scalar_type() || (biased && !db.is_contiguous()))
    return false;
  at::Tensor dx;
  if (!call.writes.empty()) {
    if (call.write_types[0] != x.scalar_type()) return false;
    dx = call.out(0);
    if (!dx.is_contiguous()) return false;
  }
  if (!norm_fits_cuda({x, dy, dx})) return false;
  norm_b_on_cuda(dy, x, w, statistics, call.attrs->shift, dx, dw, db);
  return true;
}

}  // namespace

void layer_norm(KernelCall& call) {
  const at::Tensor& x = call.read(0);
  if (x.is_cuda() &&
      norm_at_once(call, call.attrs->unbiased ? at::Tensor{} : call.read(2).contiguous()))
    return;
  const auto type = weight_type(x, call.write_types[1]);
  auto [y, mean, rstd] = at::native_layer_norm(x, {x.size(-1)}, call.read(1).to(type),
                                               bias_of(call, type), call.attrs->eps);
  call.set(0, std::move(y));
  at::Tensor statistics = call.out(1);
  statistics.select(-1, 0).copy_(mean.squeeze(-1));
  statistics.select(-1, 1).copy_(rstd.squeeze(-1));
}

void layer_norm_b(KernelCall& call) {
  // Reads dy, x, w, statistics.
  const at::Tensor& x = call.read(1);
  if (x.is_cuda() && norm_b_at_once(call, !call.attrs->unbiased)) return;
  const at::Tensor& statistics = call.read(3);
  const at::Tensor w = call.read(2).to(weight_type(x, statistics.scalar_type()));
  const at::Tensor mean = statistics.select(-1, 0).unsqueeze(-1).contiguous();
  const at::Tensor rstd = statistics.select(-1, 1).unsqueeze(-1).contiguous();
  const bool wants_dx = !call.writes.empty();
  const bool biased = !call.attrs->unbiased;
  auto [dx, dw, db] =
      at::native_layer_norm_backward(call.read(0).contiguous(), x, {x.size(-1)}, mean, rstd, w,
                                     at::zeros_like(w), {wants_dx, true, biased});
  if (wants_dx) call.set(0, std::move(dx));
  call.accumulates[0].add_(dw);
  if (biased) call.accumulates[1].add_(db);
}

/// A GPU has a kernel for the whole norm, with weights of x's type.
bool is_fused(const at::Tensor& x, const at::Tensor& weight, const OpAttrs& attrs) {
  return x.is_cuda() && attrs.shift == 0 && attrs.groups == 1 &&
         weight.scalar_type() == x.scalar_type();
}

/// Features of one group in the last dim, where there are several: rows of so many groups.
at::Tensor by_group(const at::Tensor& of, const OpAttrs& attrs, std::int64_t groups) {
  return attrs.groups == 1 ? of : of.unflatten(-1, {groups, -1});
}

void rms_norm(KernelCall& call) {
  if (call.read(0).is_cuda() && call.attrs->groups == 1 && norm_at_once(call, {})) return;
  const auto type = call.write_types[1];
  if (const at::Tensor& x = call.read(0), &w = call.read(1); is_fused(x, w, *call.attrs)) {
    auto [y, rstd] = at::_fused_rms_norm(x, {x.size(-1)}, w, call.attrs->eps);
    call.set(0, std::move(y));
    call.set(1, rstd.to(type).view(call.write_shapes[1]));
    return;
  }
  const OpAttrs& attrs = *call.attrs;
  const std::int64_t groups = call.write_shapes[1].back();  // of this rank
  const at::Tensor x = by_group(call.read(0).to(type), attrs, groups);
  const at::Tensor rstd = at::mean(at::square(x), {-1}, /*keepdim=*/true).add_(attrs.eps).rsqrt_();
  const at::Tensor w = by_group(norm_factor(call.read(1), attrs, type), attrs, groups);
  call.set(0, at::mul(x, rstd).mul_(w).to(call.write_types[0]).view(call.write_shapes[0]));
  call.set(1, rstd.view(call.write_shapes[1]));
}

void rms_norm_b(KernelCall& call) {
  // Reads dy, x, w, 1 / rms. With n = x r: dw = sum dy n; dx = r (dy w - n mean(dy w n)).
  const OpAttrs& attrs = *call.attrs;
  const at::Tensor& rstd = call.read(3);
  if (rstd.is_cuda() && attrs.groups == 1 && norm_b_at_once(call, /*biased=*/false)) return;
  if (const at::Tensor& x = call.read(1), &w = call.read(2); is_fused(x, w, *call.attrs)) {
    const bool wants_dx = !call.writes.empty();
    auto [dx, dw] = at::_fused_rms_norm_backward(call.read(0).contiguous(), x, {x.size(-1)}, rstd,
                                                 w, {wants_dx, true});
    if (wants_dx) call.set(0, std::move(dx));
    call.accumulates[0].add_(dw);
    return;
  }
  const auto type = rstd.scalar_type();
  const std::int64_t groups = rstd.size(-1);
  const at::Tensor dy = by_group(call.read(0).to(type), attrs, groups);
  const at::Tensor r = attrs.groups == 1 ? rstd : rstd.unsqueeze(-1);
  const at::Tensor n = at::mul(by_group(call.read(1).to(type), attrs, groups), r);
  const at::Tensor dyn = at::mul(dy, n);
  call.accumulates[0].add_(at::sum(dyn.view({-1, call.read(2).size(0)}), {0}));
  if (call.writes.empty()) return;
  const at::Tensor w = by_group(norm_factor(call.read(2), attrs, type), attrs, groups);
  const at::Tensor mean = at::mean(at::mul(dyn, w), {-1}, /*keepdim=*/true);
  const at::Tensor dx = at::mul(dy, w).sub_(at::mul(n, mean)).mul_(r).to(call.write_types[0]);
  call.set(0, dx.view(call.write_shapes[0]));
}

}  // namespace trainyard
