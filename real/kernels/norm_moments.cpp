// A norm over features of which each rank has some, in two steps, between which moments are added
// up over ranks.
//
// Moments of each row, [.., 3]: the sum, the sum of squares, and of how many features they are; of
// an RMS norm, [.., 2], all but the sum. With n features, mean m = sum / n (of an RMS norm 0),
// v = squares / n - m^2 and r = 1 / sqrt(v + eps): y = (x - m) r w + b.
#include "real/kernels/kernels.h"
#include "real/kernels/norm_factor.h"

namespace trainyard {

namespace {

bool has_mean(const at::Tensor& moments) { return moments.size(-1) == 3; }
at::Tensor squares_of(const at::Tensor& moments) { return moments.narrow(-1, -2, 1); }

struct RowStatistics {
  at::Tensor count, mean, rstd;  // [.., 1]; an RMS norm has no mean
};

RowStatistics statistics_of(const at::Tensor& moments, double eps) {
  RowStatistics out;
  out.count = moments.narrow(-1, -1, 1);
  at::Tensor variance = at::div(squares_of(moments), out.count);
  if (has_mean(moments)) {
    out.mean = at::div(moments.narrow(-1, 0, 1), out.count);
    // Rounding may leave a little less than 0 of a row that is constant.
    variance.sub_(at::square(out.mean)).clamp_min_(0);
  }
  out.rstd = variance.add_(eps).rsqrt_();
  return out;
}

/// (x - m) r, in the moments' type.
at::Tensor standardised(const at::Tensor& x, const RowStatistics& of) {
  at::Tensor out = of.mean.defined() ? at::sub(x, of.mean) : x.to(of.rstd.scalar_type());
  return at::mul(out, of.rstd);
}

at::Tensor over_rows(const at::Tensor& x) { return at::sum(x.view({-1, x.size(-1)}), {0}); }

}  // namespace

void norm_moments(KernelCall& call) {
  const at::ScalarType type = call.write_types[0];
  const at::Tensor& x = call.read(0);
  at::Tensor out = call.out(0);
  if (has_mean(out)) out.select(-1, 0).copy_(at::sum(x, {-1}, /*keepdim=*/false, type));
  squares_of(out).copy_(at::sum(at::square(x.to(type)), {-1}, /*keepdim=*/true));
  out.select(-1, -1).fill_(static_cast<double>(x.size(-1)));
}

void norm_moments_dx(KernelCall& call) {  // reads dmoments, x: dx = dsum + 2 x dsquares
  const at::Tensor& d = call.read(0);
  at::Tensor dx = at::mul(call.read(1), squares_of(d).mul(2));
  if (has_mean(d)) dx.add_(d.narrow(-1, 0, 1));
  call.set(0, dx.to(call.write_types[0]));
}

void normalize(KernelCall& call) {  // reads x, moments, w[, b]
  const at::Tensor& moments = call.read(1);
  const at::ScalarType type = moments.scalar_type();
  at::Tensor y = standardised(call.read(0), statistics_of(moments, call.attrs->eps));
  y.mul_(norm_factor(call.read(2), *call.attrs, type));
  if (!call.attrs->unbiased) y.add_(call.read(3).to(type));
  call.set(0, y.to(call.write_types[0]));
}

/// Reads dy, x, moments, w; makes dx without what flows through the moments, and their gradient.
/// With z = (x - m) r and g = dy w: dv = -1/2 r^2 sum g z, dm = -r sum g - 2 m dv.
void normalize_b(KernelCall& call) {
  const at::Tensor& moments = call.read(2);
  const at::ScalarType type = moments.scalar_type();
  const at::Tensor dy = call.read(0).to(type);
  const RowStatistics of = statistics_of(moments, call.attrs->eps);
  const at::Tensor z = standardised(call.read(1), of);
  call.accumulates[0].add_(over_rows(at::mul(dy, z)));
  if (!call.attrs->unbiased) call.accumulates[1].add_(over_rows(dy));
  if (call.writes.empty()) return;
  const at::Tensor g = at::mul(dy, norm_factor(call.read(3), *call.attrs, type));
  call.set(0, at::mul(g, of.rstd).to(call.write_types[0]));
  if (call.writes.size() < 2) return;
  const at::Tensor dv =
      at::sum(at::mul(g, z), {-1}, /*keepdim=*/true).mul_(at::square(of.rstd)).mul_(-0.5);
  at::Tensor d = call.out(1);
  squares_of(d).copy_(at::div(dv, of.count));
  if (of.mean.defined()) {
    const at::Tensor dm = at::sum(g, {-1}, /*keepdim=*/true).mul_(of.rstd).neg_();
    d.narrow(-1, 0, 1).copy_(dm.sub_(at::mul(of.mean, dv).mul_(2)).div_(of.count));
  }
  d.select(-1, -1).zero_();
}

}  // namespace trainyard
