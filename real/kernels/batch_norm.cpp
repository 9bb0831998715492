// Batch norm of images: at once over groups of samples, whose statistics [groups, 2, C] are mean
// and 1 / deviation; or in two steps, between which moments may be added up over ranks.
//
// Moments [1, 3, C]: of each channel the sum, the sum of squares, and how many elements these are
// of. With n of them, mean m = sum / n, variance v = squares / n - m^2, and r = 1 / sqrt(v + eps):
// y = (x - m) r w + b.
//
// Behind w and b there may be a running mean and variance. They are not read; what backward adds
// up for them, in place of gradients, is m and n v / (n - 1), times call.average_share.
#include "real/cuda/cuda.h"
#include "real/kernels/kernels.h"

namespace trainyard {

namespace {

/// Images [N, C, H, W] as [groups, samples, C, H W].
at::Tensor by_group(const at::Tensor& x, std::int64_t groups) {
  return x.view({groups, x.size(0) / groups, x.size(1), x.size(2) * x.size(3)});
}

/// [groups, C] as it is multiplied with those.
at::Tensor beside(const at::Tensor& of_channels) { return of_channels.unsqueeze(1).unsqueeze(-1); }

struct Moments {
  at::Tensor count, mean, rstd;  // [groups, C]
};

Moments moments_of(const at::Tensor& sums, double eps) {
  const at::Tensor count = sums.select(1, 2);
  const at::Tensor mean = at::div(sums.select(1, 0), count);
  const at::Tensor variance = at::div(sums.select(1, 1), count).sub_(at::square(mean));
  // Rounding may leave a little less than 0 of a channel that is constant.
  return {count, mean, at::clamp_min(variance, 0).add_(eps).rsqrt_()};
}

/// `mean`, `rstd`: [groups, C], of `count` elements each, of which there are several.
void add_averages(KernelCall& call, const at::Tensor& mean, const at::Tensor& rstd,
                  const at::Tensor& count) {
  if (call.attrs->momentum == 0) return;
  const at::Tensor variance = at::square(rstd).reciprocal_().sub_(call.attrs->eps).clamp_min_(0);
  variance.mul_(at::div(count, at::sub(count, 1).clamp_min_(1)));
  call.accumulates[2].add_(mean.mean(0), call.average_share);
  call.accumulates[3].add_(variance.mean(0), call.average_share);
}

bool has_wide_statistics(const at::Tensor& x, const at::Tensor& statistics) {
  return statistics.scalar_type() == (x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

/// By a GPU's own kernels, of which several blocks share a channel. False: there are none.
bool batch_norm_at_once(KernelCall& call) {
  const at::Tensor &x = call.read(0), &w = call.read(1), &b = call.read(2);
  if (!contiguous_on_gpu({x, w, b}) || call.write_types[0] != x.scalar_type()) return false;
  at::Tensor y = call.out(0), statistics = call.out(1);
  if (!y.is_contiguous() || !statistics.is_contiguous() || !has_wide_statistics(x, statistics))
    return false;
  batch_norm_on_cuda(x, w, b, call.attrs->eps, y, statistics);
  return true;
}

bool batch_norm_b_at_once(KernelCall& call) {  // reads dy, x, w, statistics
  const at::Tensor dy = call.read(0).contiguous();
  const at::Tensor &x = call.read(1), &w = call.read(2), &statistics = call.read(3);
  if (!contiguous_on_gpu({x, w, statistics}) || !has_wide_statistics(x, statistics) ||
      dy.scalar_type() != x.scalar_type())
    return false;
  for (const at::Tensor& sum : call.accumulates) {
    if (!sum.is_contiguous()) return false;
  }
  at::Tensor dx;
  if (!call.writes.empty()) {
    if (call.write_types[0] != x.scalar_type()) return false;
    dx = call.out(0);
    if (!dx.is_contiguous()) return false;
  }
  const bool averages = call.attrs->momentum != 0;
  batch_norm_b_on_cuda(dy, x, w, statistics, call.attrs->eps, call.average_share, dx,
                       call.accumulates[0], call.accumulates[1],
                       averages ? call.accumulates[2] : at::Tensor{},
                       averages ? call.accumulates[3] : at::Tensor{});
  return true;
}

}  // namespace

void batch_norm(KernelCall& call) {  // reads x, w, b
  const at::Tensor& x = call.read(0);
  if (x.is_cuda() && batch_norm_at_once(call)) return;
  at::Tensor statistics = call.out(1);
  const std::int64_t groups = statistics.size(0), samples = x.size(0) / groups;
  const at::ScalarType type = statistics.scalar_type();
  const at::Tensor w = call.read(1).to(type), b = call.read(2).to(type);
  for (std::int64_t group = 0; group < groups; ++group) {
    auto [normal, mean, rstd] =
        at::native_batch_norm(x.narrow(0, group * samples, samples), w, b, {}, {},
                              /*training=*/true, 0, call.attrs->eps);
    if (groups > 1)
      call.out(0).narrow(0, group * samples, samples).copy_(normal);
    else
      call.set(0, std::move(normal));
    statistics[group].select(0, 0).copy_(mean);
    statistics[group].select(0, 1).copy_(rstd);
  }
}

void batch_norm_b(KernelCall& call) {  // reads dy, x, w, statistics
  const at::Tensor& dy = call.read(0);
  if (dy.is_cuda() && batch_norm_b_at_once(call)) return;
  const at::Tensor& x = call.read(1);
  const at::Tensor& statistics = call.read(3);
  const std::int64_t groups = statistics.size(0), samples = x.size(0) / groups;
  const at::Tensor w = call.read(2).to(statistics.scalar_type());
  const bool wants_dx = !call.writes.empty();
  for (std::int64_t group = 0; group < groups; ++group) {
    const std::int64_t first = group * samples;
    auto [dx, dw, db] = at::native_batch_norm_backward(
        dy.narrow(0, first, samples), x.narrow(0, first, samples), w, {}, {},
        statistics[group].select(0, 0), statistics[group].select(0, 1), /*train=*/true,
        call.attrs->eps, {wants_dx, true, true});
    if (wants_dx && groups > 1)
      call.out(0).narrow(0, first, samples).copy_(dx);
    else if (wants_dx)
      call.set(0, std::move(dx));
    call.accumulates[0].add_(dw);
    call.accumulates[1].add_(db);
  }
  const at::Tensor count =
      at::full({1, 1}, static_cast<double>(x.numel() / x.size(1) / groups), statistics.options());
  add_averages(call, statistics.select(1, 0), statistics.select(1, 1), count);
}

void batch_moments(KernelCall& call) {
  const at::ScalarType type = call.write_types[0];
  at::Tensor out = call.out(0);
  const at::Tensor x = by_group(call.read(0), out.size(0));
  out.select(1, 0).copy_(at::sum(x, {1, 3}, /*keepdim=*/false, type));
  out.select(1, 1).copy_(
      at::linalg_vector_norm(x, 2, at::IntArrayRef{1, 3}, /*keepdim=*/false, type).square_());
  out.select(1, 2).fill_(static_cast<double>(x.size(1) * x.size(3)));
}

void batch_moments_dx(KernelCall& call) {  // reads dmoments, x: dx = dsum + 2 x dsquares
  const at::Tensor& d = call.read(0);
  const at::Tensor x = by_group(call.read(1), d.size(0));
  at::Tensor dx = at::mul(x, beside(d.select(1, 1)).mul(2)).add_(beside(d.select(1, 0)));
  call.set(0, dx.to(call.write_types[0]).view(call.write_shapes[0]));
}

void batch_normalize(KernelCall& call) {  // reads x, moments, w, b
  const at::Tensor& sums = call.read(1);
  const at::ScalarType type = sums.scalar_type();
  const at::Tensor x = by_group(call.read(0), sums.size(0));
  const Moments of = moments_of(sums, call.attrs->eps);
  const at::Tensor scale = at::mul(of.rstd, call.read(2).to(type));
  const at::Tensor shift = at::sub(call.read(3).to(type), at::mul(of.mean, scale));
  at::Tensor y = at::mul(x, beside(scale)).add_(beside(shift));
  call.set(0, y.to(call.write_types[0]).view(call.write_shapes[0]));
}

/// Reads dy, x, moments, w; makes dx without what flows through the moments, and their gradient.
///   db = sum dy; dw = sum dy (x - m) r; dv = -1/2 w r^2 dw; dm = -w r db - 2 m dv
void batch_normalize_b(KernelCall& call) {
  const at::Tensor& sums = call.read(2);
  const at::ScalarType type = sums.scalar_type();
  const std::int64_t groups = sums.size(0);
  const at::Tensor dy = by_group(call.read(0), groups);
  const Moments of = moments_of(sums, call.attrs->eps);
  const at::Tensor w = call.read(3).to(type);
  const at::Tensor db = at::sum(dy, {1, 3}, /*keepdim=*/false, type);
  const at::Tensor dyx = at::sum(at::mul(dy.to(type), by_group(call.read(1), groups)), {1, 3});
  const at::Tensor dw = at::sub(dyx, at::mul(of.mean, db)).mul_(of.rstd);
  call.accumulates[0].add_(dw.sum(0));
  call.accumulates[1].add_(db.sum(0));
  add_averages(call, of.mean, of.rstd, of.count);
  if (call.writes.empty()) return;
  const at::Tensor scale = at::mul(of.rstd, w);
  call.set(0, at::mul(dy, beside(scale)).to(call.write_types[0]).view(call.write_shapes[0]));
  if (call.writes.size() < 2) return;
  const at::Tensor dv = at::mul(dw, scale).mul_(of.rstd).mul_(-0.5).div_(of.count);
  at::Tensor d = call.out(1);
  d.select(1, 0).copy_(at::mul(scale, db).neg_().div_(of.count).sub_(at::mul(of.mean, dv).mul_(2)));
  d.select(1, 1).copy_(dv);
  d.select(1, 2).zero_();
}

}  // namespace trainyard
