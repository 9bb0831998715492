// How kernels of a scan divide a GPU's threads, and in which types they compute.
#pragma once

#include "real/cuda/wide.h"
#include "real/kernels/scan_shape.h"

namespace trainyard {

/// What products of matrices read.
template <typename T>
struct Work {
  using Type = typename Wide<T>::Type;
};
template <>
struct Work<__nv_bfloat16> {
  using Type = __nv_bfloat16;
};

/// Sums of a warp's lanes up to each, or from each on where it is `kFromEnd`.
template <bool kFromEnd, typename Sum>
__device__ Sum running_sum(Sum x) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int step = 1; step < kWarp; step *= 2) {
    const Sum other = kFromEnd ? __shfl_down_sync(~0U, x, step) : __shfl_up_sync(~0U, x, step);
    if (kFromEnd ? lane + step < kWarp : lane >= step) x += other;
  }
  return x;
}

template <typename Sum>
__device__ Sum sum_of_warp(Sum x) {
  for (int step = kWarp / 2; step > 0; step /= 2) x += __shfl_xor_sync(~0U, x, step);
  return x;
}

/// Warps take turns: the first of this thread's, and how many there are.
__device__ inline std::int64_t first_warp() { return first_thread() / kWarp; }
__device__ inline std::int64_t all_warps() { return all_threads() / kWarp; }
__device__ inline int lane_of_warp() { return static_cast<int>(threadIdx.x) % kWarp; }

}  // namespace trainyard
