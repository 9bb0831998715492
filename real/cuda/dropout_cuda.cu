// Dropout on a GPU: a thread draws the words of four elements of a run.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "real/cuda/dropout_cuda.h"

namespace trainyard {

namespace {

template <typename T>
struct Wide {
  using Type = float;
};
template <>
struct Wide<double> {
  using Type = double;
};

__device__ float widen(float x) { return x; }
__device__ double widen(double x) { return x; }
__device__ float widen(__half x) { return __half2float(x); }
__device__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename T>
__device__ T narrow(typename Wide<T>::Type x) {
  return static_cast<T>(x);
}
template <>
__device__ __half narrow<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ __nv_bfloat16 narrow<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

/// `groups`: of four elements, that a run of any alignment may touch.
template <typename T>
__global__ void drop(const T* from, T* to, const DropoutMask mask, std::int64_t groups) {
  using Sum = typename Wide<T>::Type;
  const std::int64_t threads = mask.num_runs() * groups;
  const std::int64_t run = mask.run_length();
  for (std::int64_t t = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; t < threads;
       t += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t r = t / groups;
    const std::uint64_t first = first_element(mask, r);
    const std::uint64_t element = first / 4 * 4 + static_cast<std::uint64_t>(t % groups) * 4;
    const PhiloxCounter words = dropout_words(mask, r, element);
    for (std::uint64_t k = 0; k < 4; ++k) {
      const std::int64_t i =
          static_cast<std::int64_t>(element + k) - static_cast<std::int64_t>(first);
      if (i < 0 || i >= run) continue;
      const std::int64_t at = r * run + i;
      to[at] = words[k] < mask.limit ? narrow<T>(Sum(0))
                                     : narrow<T>(widen(from[at]) * static_cast<Sum>(mask.scale));
    }
  }
}

template <typename T>
cudaError_t launch(const void* from, void* to, const DropoutMask& mask, cudaStream_t stream) {
  constexpr std::int64_t kThreads = 256;
  constexpr std::int64_t kMostBlocks = 65535;
  const std::int64_t groups = mask.run_length() / 4 + 2;
  const std::int64_t blocks = (mask.num_runs() * groups + kThreads - 1) / kThreads;
  if (blocks == 0) return cudaSuccess;
  drop<T>
      <<<static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks), kThreads, 0, stream>>>(
          static_cast<const T*>(from), static_cast<T*>(to), mask, groups);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_dropout(DType type, const void* from, void* to, const DropoutMask& mask,
                           cudaStream_t stream) {
  switch (type) {
    case DType::kFp64: return launch<double>(from, to, mask, stream);
    case DType::kFp32: return launch<float>(from, to, mask, stream);
    case DType::kFp16: return launch<__half>(from, to, mask, stream);
    case DType::kBf16: return launch<__nv_bfloat16>(from, to, mask, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace trainyard
