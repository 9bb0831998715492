// LibTorch's tensors for the GPU kernels that are our own.
#include <algorithm>
#include <cmath>
#include <vector>

#include "real/cuda/adamw_cuda.h"
#include "real/cuda/batch_norm_cuda.h"
#include "real/cuda/cross_entropy_cuda.h"
#include "real/cuda/cuda.h"
#include "real/cuda/cuda_tensors.h"
#include "real/cuda/dropout_cuda.h"
#include "real/cuda/fp8_cuda.h"
#include "real/cuda/gated_cuda.h"
#include "real/cuda/norm_cuda.h"
#include "real/cuda/rope_cuda.h"
#include "real/cuda/softmax_cuda.h"
#include "real/kernels/clip_factor.h"

namespace trainyard {

namespace {

std::int64_t num_rows(const at::Tensor& x) {
  return x.numel() / std::max<std::int64_t>(1, x.size(-1));
}

}  // namespace

void drop_on_cuda(const at::Tensor& x, at::Tensor& y, const DropoutMask& mask) {
  C10_CUDA_CHECK(launch_dropout(to_dtype(x.scalar_type()), x.const_data_ptr(), y.mutable_data_ptr(),
                                mask, stream_of(x)));
}

void gated_on_cuda(Gate gate, const at::Tensor& x, at::Tensor& y) {
  C10_CUDA_CHECK(launch_gated(to_dtype(x.scalar_type()), gate, x.const_data_ptr(),
                              y.mutable_data_ptr(), num_rows(y), y.size(-1), stream_of(x)));
}

void gated_dx_on_cuda(Gate gate, const at::Tensor& dy, const at::Tensor& x, at::Tensor& dx) {
  C10_CUDA_CHECK(launch_gated_dx(to_dtype(x.scalar_type()), gate, dy.const_data_ptr(),
                                 x.const_data_ptr(), dx.mutable_data_ptr(), num_rows(dy),
                                 dy.size(-1), stream_of(x)));
}

void rope_on_cuda(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                  std::int64_t turned, std::int64_t head_dim, at::Tensor& y) {
  const RopeShape shape{.rows = num_rows(x),
                        .seq_len = x.size(1),
                        .row_width = x.size(-1),
                        .turned = turned,
                        .head_dim = head_dim,
                        .half = cos.size(-1),
                        .by_sample = num_rows(cos) != x.size(1)};
  C10_CUDA_CHECK(launch_rope(to_dtype(x.scalar_type()), x.const_data_ptr(), cos.const_data_ptr(),
                             sin.const_data_ptr(), y.mutable_data_ptr(), shape, stream_of(x)));
}

void log_softmax_on_cuda(const at::Tensor& x, std::int64_t classes, at::Tensor& y) {
  C10_CUDA_CHECK(launch_log_softmax(to_dtype(x.scalar_type()), x.const_data_ptr(),
                                    y.mutable_data_ptr(), num_rows(x), x.size(-1), classes,
                                    stream_of(x)));
}

void cross_entropy_dx_on_cuda(const at::Tensor& y, const at::Tensor& labels,
                              std::int64_t first_column, double scale, at::Tensor& dx) {
  C10_CUDA_CHECK(launch_cross_entropy_dx(
      to_dtype(dx.scalar_type()), y.const_data_ptr(), labels.const_data_ptr<std::int64_t>(),
      dx.mutable_data_ptr(), num_rows(y), y.size(-1), first_column, scale, stream_of(y)));
}

namespace {

SoftmaxShape softmax_shape(const at::Tensor& y, bool causal) {
  SoftmaxShape shape;
  shape.rows = num_rows(y);
  shape.columns = y.size(-1);
  shape.queries = y.dim() > 1 ? std::max<std::int64_t>(1, y.size(-2)) : 1;
  shape.causal = causal;
  return shape;
}

NormShape norm_shape(const at::Tensor& x, const at::Tensor& statistics, double eps, double shift) {
  NormShape shape;
  shape.rows = num_rows(x);
  shape.columns = x.size(-1);
  shape.has_mean = statistics.size(-1) == 2;
  shape.eps = eps;
  shape.shift = shift;
  return shape;
}

BatchNormShape batch_norm_shape(const at::Tensor& x, const at::Tensor& statistics, double eps) {
  BatchNormShape shape;
  shape.groups = statistics.size(0);
  shape.samples = x.size(0) / shape.groups;
  shape.channels = x.size(1);
  shape.pixels = x.size(2) * x.size(3);
  shape.eps = eps;
  return shape;
}

}  // namespace

void softmax_on_cuda(const at::Tensor& x, bool causal, at::Tensor& y) {
  C10_CUDA_CHECK(launch_softmax(to_dtype(x.scalar_type()), x.const_data_ptr(), y.mutable_data_ptr(),
                                softmax_shape(y, causal), stream_of(x)));
}

void softmax_dx_on_cuda(const at::Tensor& dy, const at::Tensor& y, bool causal, at::Tensor& dx) {
  C10_CUDA_CHECK(launch_softmax_dx(to_dtype(y.scalar_type()), dy.const_data_ptr(),
                                   y.const_data_ptr(), dx.mutable_data_ptr(),
                                   softmax_shape(y, causal), stream_of(y)));
}

bool norm_fits_cuda(std::initializer_list<at::Tensor> rows) {
  constexpr std::uintptr_t kVectorBytes = 16;
  const bool aligned = std::all_of(rows.begin(), rows.end(), [](const at::Tensor& x) {
    return !x.defined() || reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % kVectorBytes == 0;
  });
  const at::Tensor& x = *rows.begin();
  return norm_fits(to_dtype(x.scalar_type()), x.size(-1), aligned);
}

void norm_on_cuda(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b, double eps,
                  double shift, at::Tensor& y, at::Tensor& statistics) {
  C10_CUDA_CHECK(launch_norm(to_dtype(x.scalar_type()), x.const_data_ptr(), numbers_of(w),
                             numbers_of(b), y.mutable_data_ptr(), statistics.mutable_data_ptr(),
                             norm_shape(x, statistics, eps, shift), stream_of(x)));
}

void norm_b_on_cuda(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& w,
                    const at::Tensor& statistics, double shift, at::Tensor dx, at::Tensor dw,
                    at::Tensor db) {
  const DType type = to_dtype(x.scalar_type());
  const NormShape shape = norm_shape(x, statistics, 0, shift);
  const at::Tensor partial =
      scratch({norm_partials(type, shape) * 2 * shape.columns}, statistics.scalar_type(), x);
  NormGradient of;
  of.dy = dy.const_data_ptr(), of.x = x.const_data_ptr();
  of.statistics = statistics.const_data_ptr();
  of.weight = numbers_of(w);
  of.dx = results_of(dx);
  of.dw = numbers_of(dw), of.db = numbers_of(db);
  of.partial = partial.mutable_data_ptr();
  C10_CUDA_CHECK(launch_norm_b(type, of, shape, stream_of(x)));
}

void batch_norm_on_cuda(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b, double eps,
                        at::Tensor& y, at::Tensor& statistics) {
  const BatchNormShape shape = batch_norm_shape(x, statistics, eps);
  const at::Tensor sums = scratch({batch_norm_scratch(shape)}, at::kDouble, x);
  C10_CUDA_CHECK(launch_batch_norm(to_dtype(x.scalar_type()), x.const_data_ptr(), numbers_of(w),
                                   numbers_of(b), y.mutable_data_ptr(),
                                   statistics.mutable_data_ptr(), sums.mutable_data_ptr<double>(),
                                   shape, stream_of(x)));
}

void batch_norm_b_on_cuda(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& w,
                          const at::Tensor& statistics, double eps, double share, at::Tensor dx,
                          at::Tensor dw, at::Tensor db, at::Tensor mean, at::Tensor variance) {
  const BatchNormShape shape = batch_norm_shape(x, statistics, eps);
  const at::Tensor sums = scratch({batch_norm_scratch(shape)}, at::kDouble, x);
  BatchNormGradient of;
  of.dy = dy.const_data_ptr(), of.x = x.const_data_ptr();
  of.statistics = statistics.const_data_ptr();
  of.weight = numbers_of(w);
  of.dx = results_of(dx);
  of.dw = numbers_of(dw), of.db = numbers_of(db);
  of.mean = numbers_of(mean), of.variance = numbers_of(variance);
  of.share = share;
  of.scratch = sums.mutable_data_ptr<double>();
  C10_CUDA_CHECK(launch_batch_norm_b(to_dtype(x.scalar_type()), of, shape, stream_of(x)));
}

namespace {

/// In order, with what lies between them, which keeps its numbers.
std::vector<AdamWRange> all_ranges(const std::vector<DecayRange>& ranges, std::int64_t size,
                                   const StepState& state) {
  std::vector<AdamWRange> out;
  const auto add = [&](std::int64_t begin, double keep, bool updated) {
    const bool as_before = !out.empty() && out.back().keep == keep && out.back().updated == updated;
    if (!as_before) out.push_back({begin, keep, updated});
  };
  std::int64_t at = 0;
  for (const DecayRange& range : ranges) {
    check(range.begin >= at, "ranges of a bucket are in order");
    if (range.begin > at) add(at, 1, false);
    add(range.begin, range.decay ? 1 - state.learning_rate * state.weight_decay : 1, true);
    at = range.end;
  }
  if (at < size) add(at, 1, false);
  out.push_back({size, 1, false});
  return out;
}

}  // namespace

void adamw_on_cuda(const AdamWOnCuda& of, const StepState& state,
                   const std::vector<DecayRange>& ranges) {
  AdamWState what;
  what.type = to_dtype(of.weights.scalar_type());
  what.weights = results_of(of.weights);
  what.first = results_of(of.first), what.second = results_of(of.second);
  what.gradient = numbers_of(of.gradient), what.copy = numbers_of(of.copy);
  AdamWUpdate update;
  update.beta1 = state.beta1, update.beta2 = state.beta2, update.eps = state.eps;
  const auto updates = static_cast<double>(state.updates + 1);
  update.step = state.learning_rate / (1 - std::pow(state.beta1, updates));
  update.root = std::sqrt(1 - std::pow(state.beta2, updates));
  update.unscale = 1 / state.loss_scale;
  update.clip = state.clip_norm;
  update.clip_eps = kClipEps;
  update.norm = numbers_of(of.norm);
  if (of.guard.defined() && of.guard.scalar_type() == at::kByte)
    update.flag = of.guard.const_data_ptr<std::uint8_t>();
  else
    update.guard = numbers_of(of.guard);
  const std::vector<AdamWRange> all = all_ranges(ranges, of.weights.numel(), state);
  C10_CUDA_CHECK(launch_adamw(what, all.data(), static_cast<std::int64_t>(all.size()), update,
                              stream_of(of.weights)));
}

void amax_on_cuda(const at::Tensor& x, at::Tensor& most) {
  C10_CUDA_CHECK(launch_amax(to_dtype(x.scalar_type()), x.const_data_ptr(), x.numel(),
                             most.mutable_data_ptr<float>(), stream_of(x)));
}

void quantize_on_cuda(const at::Tensor& x, const at::Tensor& multiplier, at::Tensor& y) {
  C10_CUDA_CHECK(launch_quantize(to_dtype(x.scalar_type()), x.const_data_ptr(), x.numel(),
                                 multiplier.const_data_ptr<float>(),
                                 y.scalar_type() == at::kFloat8_e5m2 ? Fp8::kE5m2 : Fp8::kE4m3,
                                 static_cast<std::uint8_t*>(y.mutable_data_ptr()), stream_of(x)));
}

void quantize_both_on_cuda(const at::Tensor& x, const at::Tensor& multiplier, at::Tensor& y,
                           at::Tensor& turned) {
  C10_CUDA_CHECK(launch_quantize_both(to_dtype(x.scalar_type()), x.const_data_ptr(), x.size(0),
                                      x.size(1), multiplier.const_data_ptr<float>(),
                                      y.scalar_type() == at::kFloat8_e5m2 ? Fp8::kE5m2 : Fp8::kE4m3,
                                      static_cast<std::uint8_t*>(y.mutable_data_ptr()),
                                      static_cast<std::uint8_t*>(turned.mutable_data_ptr()),
                                      stream_of(x)));
}

at::Tensor transposed_on_cuda(const at::Tensor& x) {
  at::Tensor y = at::empty({x.size(1), x.size(0)}, x.options());
  C10_CUDA_CHECK(launch_transpose(static_cast<const std::uint8_t*>(x.const_data_ptr()), x.size(0),
                                  x.size(1), static_cast<std::uint8_t*>(y.mutable_data_ptr()),
                                  stream_of(x)));
  return y;
}

}  // namespace trainyard
