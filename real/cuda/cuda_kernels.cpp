// LibTorch's tensors for the GPU kernels that are our own.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include "engine/base/error.h"
#include "real/cuda/cross_entropy_cuda.h"
#include "real/cuda/cuda.h"
#include "real/cuda/dropout_cuda.h"
#include "real/cuda/fp8_cuda.h"
#include "real/cuda/gated_cuda.h"
#include "real/cuda/rope_cuda.h"

namespace trainyard {

namespace {

DType to_dtype(at::ScalarType type) {
  switch (type) {
    case at::kDouble: return DType::kFp64;
    case at::kFloat: return DType::kFp32;
    case at::kHalf: return DType::kFp16;
    case at::kBFloat16: return DType::kBf16;
    default: bug("a GPU kernel of ours is of floating types");
  }
}

cudaStream_t stream_of(const at::Tensor& x) {
  return c10::cuda::getCurrentCUDAStream(x.device().index());
}

std::int64_t num_rows(const at::Tensor& x) { return x.numel() / x.size(-1); }

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

at::Tensor transposed_on_cuda(const at::Tensor& x) {
  at::Tensor y = at::empty({x.size(1), x.size(0)}, x.options());
  C10_CUDA_CHECK(launch_transpose(static_cast<const std::uint8_t*>(x.const_data_ptr()), x.size(0),
                                  x.size(1), static_cast<std::uint8_t*>(y.mutable_data_ptr()),
                                  stream_of(x)));
  return y;
}

}  // namespace trainyard
