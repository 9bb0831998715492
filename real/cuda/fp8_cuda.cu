// Casts to FP8 on a GPU: what is cast is read once for its largest number, and once to be written.
#include <cuda_fp8.h>

#include <algorithm>

#include "real/cuda/fp8_cuda.h"
#include "real/cuda/wide.h"

namespace trainyard {

namespace {

constexpr int kWarp = 32;

/// Bits of numbers that are not negative are in the numbers' order, and NaN's above all.
__device__ int larger_of_warp(int bits) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const int other = __shfl_xor_sync(~0U, bits, step);
    bits = other > bits ? other : bits;
  }
  return bits;
}

template <int N, typename T>
__global__ void amax(const T* x, std::int64_t count, int* most) {
  int bits = 0;
  for (std::int64_t t = first_thread(); t < count / N; t += all_threads()) {
    const Pack<T, N> pack = load<N>(x + t * N);
    for (int i = 0; i < N; ++i) {
      const int mine = __float_as_int(fabsf(static_cast<float>(widen(pack.at[i]))));
      bits = mine > bits ? mine : bits;
    }
  }
  bits = larger_of_warp(bits);
  if (threadIdx.x % kWarp == 0) atomicMax(most, bits);
}

template <int N, typename T>
__global__ void quantize(const T* x, std::int64_t count, const float* multiplier, float largest,
                         __nv_fp8_interpretation_t to, std::uint8_t* y) {
  const float by = *multiplier;
  for (std::int64_t t = first_thread(); t < count / N; t += all_threads()) {
    const Pack<T, N> pack = load<N>(x + t * N);
    Pack<std::uint8_t, N> out;
    for (int i = 0; i < N; ++i) {
      float scaled = static_cast<float>(widen(pack.at[i])) * by;
      if (scaled > largest) scaled = largest;
      if (scaled < -largest) scaled = -largest;
      out.at[i] = __nv_cvt_float_to_fp8(scaled, __NV_SATFINITE, to);
    }
    store<N>(y + t * N, out);
  }
}

constexpr int kTile = 64;
constexpr int kTileRows = 16;  // threads down a tile, each of which moves four neighbours at once

/// Tiles go through shared memory, so that rows are read and written by neighbours.
__global__ void transpose(const std::uint8_t* x, std::int64_t rows, std::int64_t columns,
                          std::uint8_t* y) {
  __shared__ std::uint8_t tile[kTile][kTile + 4];
  const std::int64_t row = blockIdx.y * std::int64_t{kTile},
                     column = blockIdx.x * std::int64_t{kTile};
  const int across = static_cast<int>(threadIdx.x) * 4;
  for (int down = static_cast<int>(threadIdx.y); down < kTile; down += kTileRows) {
    if (row + down >= rows) break;
    for (int i = 0; i < 4; ++i) {
      if (column + across + i < columns)
        tile[down][across + i] = x[(row + down) * columns + column + across + i];
    }
  }
  __syncthreads();
  for (int down = static_cast<int>(threadIdx.y); down < kTile; down += kTileRows) {
    if (column + down >= columns) break;
    for (int i = 0; i < 4; ++i) {
      if (row + across + i < rows)
        y[(column + down) * rows + row + across + i] = tile[across + i][down];
    }
  }
}

}  // namespace

cudaError_t launch_amax(DType type, const void* x, std::int64_t count, float* most,
                        cudaStream_t stream) {
  if (const cudaError_t error = cudaMemsetAsync(most, 0, sizeof(float), stream);
      error != cudaSuccess || count == 0) {
    return error;
  }
  return for_type(type, [&](auto number) {
    using T = decltype(number);
    const auto launch = [&](auto n) {
      // An atomic for each warp of more blocks than run at once is slower.
      constexpr unsigned kEnough = 16 * 132;
      const unsigned blocks = std::min(num_blocks(count / n()), kEnough);
      amax<n()><<<blocks, kThreads, 0, stream>>>(static_cast<const T*>(x), count,
                                                 reinterpret_cast<int*>(most));
      return cudaGetLastError();
    };
    return whole_vectors<T>(count) ? launch(std::integral_constant<int, kVector<T>>{})
                                   : launch(std::integral_constant<int, 1>{});
  });
}

cudaError_t launch_quantize(DType type, const void* x, std::int64_t count, const float* multiplier,
                            Fp8 to, std::uint8_t* y, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  const bool e4m3 = to == Fp8::kE4m3;
  return for_type(type, [&](auto number) {
    using T = decltype(number);
    const auto launch = [&](auto n) {
      quantize<n()><<<num_blocks(count / n()), kThreads, 0, stream>>>(
          static_cast<const T*>(x), count, multiplier, e4m3 ? 448.0F : 57344.0F,
          e4m3 ? __NV_E4M3 : __NV_E5M2, y);
      return cudaGetLastError();
    };
    return whole_vectors<T>(count) ? launch(std::integral_constant<int, kVector<T>>{})
                                   : launch(std::integral_constant<int, 1>{});
  });
}

cudaError_t launch_transpose(const std::uint8_t* x, std::int64_t rows, std::int64_t columns,
                             std::uint8_t* y, cudaStream_t stream) {
  if (rows * columns == 0) return cudaSuccess;
  const auto tiles = [](std::int64_t n) { return static_cast<unsigned>((n + kTile - 1) / kTile); };
  transpose<<<dim3(tiles(columns), tiles(rows)), dim3(kTile / 4, kTileRows), 0, stream>>>(
      x, rows, columns, y);
  return cudaGetLastError();
}

}  // namespace trainyard
