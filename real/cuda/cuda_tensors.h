// LibTorch's tensors as GPU kernels take them.
#pragma once

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include "engine/base/error.h"
#include "real/cuda/some_numbers.h"
#include "real/torch.h"

namespace trainyard {

inline DType to_dtype(at::ScalarType type) {
  switch (type) {
    case at::kDouble: return DType::kFp64;
    case at::kFloat: return DType::kFp32;
    case at::kHalf: return DType::kFp16;
    case at::kBFloat16: return DType::kBf16;
    default: bug("a GPU kernel of ours is of floating types");
  }
}

inline cudaStream_t stream_of(const at::Tensor& x) {
  return c10::cuda::getCurrentCUDAStream(x.device().index());
}

/// An undefined tensor has none.
inline SomeNumbers numbers_of(const at::Tensor& x) {
  if (!x.defined()) return {};
  return {const_cast<void*>(x.const_data_ptr()), to_dtype(x.scalar_type())};
}

inline void* results_of(const at::Tensor& x) {
  return x.defined() ? x.mutable_data_ptr() : nullptr;
}

inline at::Tensor scratch(c10::IntArrayRef sizes, at::ScalarType type, const at::Tensor& beside) {
  return at::empty(sizes, beside.options().dtype(type));
}

}  // namespace trainyard
