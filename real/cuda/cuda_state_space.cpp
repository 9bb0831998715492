// Ops of state space models by GPU kernels of our own.
#include "real/cuda/causal_conv1d_cuda.h"
#include "real/cuda/cuda_tensors.h"
#include "real/cuda/state_space.h"

namespace trainyard {

namespace {

CausalConvShape conv_shape(const at::Tensor& x, const at::Tensor& w) {
  return {.batch = x.size(0), .tokens = x.size(1), .channels = x.size(2), .width = w.size(3)};
}

at::ScalarType sums_of(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

}  // namespace

bool causal_conv1d_fits_cuda(const at::Tensor& w) { return causal_conv1d_fits(w.size(3)); }

void causal_conv1d_on_cuda(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b,
                           at::Tensor& y) {
  C10_CUDA_CHECK(launch_causal_conv1d(to_dtype(x.scalar_type()), x.const_data_ptr(), numbers_of(w),
                                      numbers_of(b), y.mutable_data_ptr(), conv_shape(x, w),
                                      stream_of(x)));
}

void causal_conv1d_b_on_cuda(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& w,
                             const at::Tensor& b, at::Tensor dx, at::Tensor dw, at::Tensor db) {
  const CausalConvShape shape = conv_shape(x, w);
  const at::Tensor partial =
      scratch({causal_conv1d_partials(shape), shape.width + 1, shape.channels}, sums_of(x), x);
  CausalConvGradient of;
  of.dy = dy.const_data_ptr(), of.x = x.const_data_ptr();
  of.weight = numbers_of(w), of.bias = numbers_of(b);
  of.dx = results_of(dx);
  of.dw = numbers_of(dw), of.db = numbers_of(db);
  of.partial = partial.mutable_data_ptr();
  C10_CUDA_CHECK(launch_causal_conv1d_b(to_dtype(x.scalar_type()), of, shape, stream_of(x)));
}

}  // namespace trainyard
