// Numbers of GPU kernels: computed in fp32, or in fp64 where they are that wide; read and written
// by whole vectors of 16 bytes where rows allow it.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "engine/base/dtype.h"
#include "real/cuda/some_numbers.h"

namespace trainyard {

template <typename T>
struct Wide {
  using Type = float;
};
template <>
struct Wide<double> {
  using Type = double;
};

__device__ inline float widen(float x) { return x; }
__device__ inline double widen(double x) { return x; }
__device__ inline float widen(__half x) { return __half2float(x); }
__device__ inline float widen(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename T>
__device__ T narrow(typename Wide<T>::Type x) {
  return static_cast<T>(x);
}
template <>
__device__ inline __half narrow<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline __nv_bfloat16 narrow<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

/// Neighbours, which one thread reads and writes at once.
template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T at[N];
};

template <typename T>
constexpr int kVector = 16 / static_cast<int>(sizeof(T));

template <int N, typename T>
__device__ Pack<T, N> load(const T* from) {
  return *reinterpret_cast<const Pack<T, N>*>(from);
}
template <int N, typename T>
__device__ void store(T* to, const Pack<T, N>& pack) {
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

/// Whether rows of these extents, one behind the other, are whole vectors of T.
template <typename T, typename... Extents>
bool whole_vectors(Extents... extents) {
  return ((extents % kVector<T> == 0) && ...);
}

/// Whether packs of N may be read and written there.
template <int N, typename T, typename... Pointers>
bool aligned_to(const T* first, Pointers... others) {
  return reinterpret_cast<std::uintptr_t>(first) % sizeof(Pack<T, N>) == 0 &&
         ((reinterpret_cast<std::uintptr_t>(others) % sizeof(Pack<T, N>) == 0) && ...);
}

constexpr int kThreads = 256;
constexpr int kWarp = 32;

/// Blocks for `threads` threads, each of which goes on by the whole grid.
inline unsigned num_blocks(std::int64_t threads) {
  constexpr std::int64_t kMost = 65535;
  const std::int64_t blocks = (threads + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < kMost ? blocks : kMost);
}

__device__ inline std::int64_t first_thread() {
  return blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x;
}
__device__ inline std::int64_t all_threads() { return std::int64_t{gridDim.x} * blockDim.x; }

template <typename Sum>
__device__ Sum number_at(const SomeNumbers& of, std::int64_t i) {
  switch (of.type) {
    case DType::kFp64: return static_cast<Sum>(static_cast<const double*>(of.data)[i]);
    case DType::kFp32: return static_cast<const float*>(of.data)[i];
    case DType::kFp16: return widen(static_cast<const __half*>(of.data)[i]);
    default: return widen(static_cast<const __nv_bfloat16*>(of.data)[i]);
  }
}

template <typename Sum>
__device__ void set_number(const SomeNumbers& of, std::int64_t i, Sum x) {
  switch (of.type) {
    case DType::kFp64: static_cast<double*>(of.data)[i] = x; break;
    case DType::kFp32: static_cast<float*>(of.data)[i] = static_cast<float>(x); break;
    case DType::kFp16:
      static_cast<__half*>(of.data)[i] = narrow<__half>(static_cast<float>(x));
      break;
    default: static_cast<__nv_bfloat16*>(of.data)[i] = narrow<__nv_bfloat16>(static_cast<float>(x));
  }
}

template <typename Sum>
__device__ void add_number(const SomeNumbers& of, std::int64_t i, Sum x) {
  set_number(of, i, number_at<Sum>(of, i) + x);
}

/// f(T{}) for the floating type that `type` is.
template <typename F>
cudaError_t for_type(DType type, F f) {
  switch (type) {
    case DType::kFp64: return f(double{});
    case DType::kFp32: return f(float{});
    case DType::kFp16: return f(__half{});
    case DType::kBf16: return f(__nv_bfloat16{});
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace trainyard
