// Casts to FP8 on a GPU: what is cast is read once for its largest number, and once to be written.
#include <cuda_fp8.h>

#include <algorithm>

#include "real/cuda/fp8_cuda.h"
#include "real/cuda/wide.h"

namespace trainyard {

namespace {

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

struct Fp8Cast {
  float by, largest;
  __nv_fp8_interpretation_t to;
  template <typename T>
  __device__ std::uint8_t operator()(T x) const {
    float scaled = static_cast<float>(widen(x)) * by;
    if (scaled > largest) scaled = largest;
    if (scaled < -largest) scaled = -largest;
    return __nv_cvt_float_to_fp8(scaled, __NV_SATFINITE, to);
  }
};

template <int N, typename T>
__global__ void quantize(const T* x, std::int64_t count, const float* multiplier, float largest,
                         __nv_fp8_interpretation_t to, std::uint8_t* y) {
  const Fp8Cast cast{*multiplier, largest, to};
  for (std::int64_t t = first_thread(); t < count / N; t += all_threads()) {
    const Pack<T, N> pack = load<N>(x + t * N);
    Pack<std::uint8_t, N> out;
    for (int i = 0; i < N; ++i) out.at[i] = cast(pack.at[i]);
    store<N>(y + t * N, out);
  }
}

constexpr int kPack = 8;          // neighbours of a row that a thread casts at once
constexpr int kTallColumns = 64;  // of a tile of both layouts
constexpr int kTallRows = 128;
constexpr int kTallPack = 16;  // neighbours of a column that a thread writes at once
constexpr int kWord = 4;

/// Both layouts of a cast: a tile is cast into shared memory, too, and read there by columns.
/// kWhole: rows and columns are whole packs, and aligned; else by elements.
template <bool kWhole, typename T>
__global__ void quantize_both(const T* x, std::int64_t rows, std::int64_t columns,
                              const float* multiplier, float largest, __nv_fp8_interpretation_t to,
                              std::uint8_t* y, std::uint8_t* turned) {
  __shared__ alignas(16) std::uint8_t tile[kTallColumns][kTallRows + kWord];
  const Fp8Cast cast{*multiplier, largest, to};
  const std::int64_t column = blockIdx.x * std::int64_t{kTallColumns};
  const std::int64_t tiles = (rows + kTallRows - 1) / kTallRows;
  constexpr int kAcross = kTallColumns / kPack, kDown = kTallRows / kTallPack;
  for (std::int64_t t = blockIdx.y; t < tiles; t += gridDim.y) {
    const std::int64_t row = t * kTallRows;
    for (int p = static_cast<int>(threadIdx.x); p < kTallRows * kAcross; p += kThreads) {
      const int down = p / kAcross, across = p % kAcross * kPack;
      if (row + down >= rows || column + across >= columns) continue;
      const std::int64_t at = (row + down) * columns + column + across;
      if constexpr (kWhole) {
        const Pack<T, kPack> in = load<kPack>(x + at);
        Pack<std::uint8_t, kPack> out;
        for (int i = 0; i < kPack; ++i) {
          out.at[i] = cast(in.at[i]);
          tile[across + i][down] = out.at[i];
        }
        store<kPack>(y + at, out);
      } else {
        for (int i = 0; i < kPack && column + across + i < columns; ++i) {
          y[at + i] = cast(x[at + i]);
          tile[across + i][down] = y[at + i];
        }
      }
    }
    __syncthreads();
    for (int p = static_cast<int>(threadIdx.x); p < kTallColumns * kDown; p += kThreads) {
      const int across = p / kDown, down = p % kDown * kTallPack;
      if (row + down >= rows || column + across >= columns) continue;
      std::uint8_t* out = turned + (column + across) * rows + row + down;
      if constexpr (kWhole) {
        Pack<std::uint32_t, kTallPack / kWord> words;
        for (int i = 0; i < kTallPack / kWord; ++i)
          words.at[i] =
              load<1>(reinterpret_cast<const std::uint32_t*>(&tile[across][down + i * kWord]))
                  .at[0];
        store<kTallPack / kWord>(reinterpret_cast<std::uint32_t*>(out), words);
      } else {
        for (int i = 0; i < kTallPack && row + down + i < rows; ++i)
          out[i] = tile[across][down + i];
      }
    }
    __syncthreads();  // the next tile is written there
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

cudaError_t launch_quantize_both(DType type, const void* x, std::int64_t rows, std::int64_t columns,
                                 const float* multiplier, Fp8 to, std::uint8_t* y,
                                 std::uint8_t* turned, cudaStream_t stream) {
  if (rows * columns == 0) return cudaSuccess;
  const bool e4m3 = to == Fp8::kE4m3;
  constexpr std::int64_t kMost = 65535;
  const std::int64_t tiles = (rows + kTallRows - 1) / kTallRows;
  const dim3 grid(static_cast<unsigned>((columns + kTallColumns - 1) / kTallColumns),
                  static_cast<unsigned>(tiles < kMost ? tiles : kMost));
  return for_type(type, [&](auto number) {
    using T = decltype(number);
    const T* from = static_cast<const T*>(x);
    const auto launch = [&](auto whole) {
      quantize_both<whole()>
          <<<grid, kThreads, 0, stream>>>(from, rows, columns, multiplier, e4m3 ? 448.0F : 57344.0F,
                                          e4m3 ? __NV_E4M3 : __NV_E5M2, y, turned);
      return cudaGetLastError();
    };
    const bool whole = columns % kPack == 0 && rows % kTallPack == 0 && aligned_to<kPack>(from) &&
                       aligned_to<kTallPack>(y, turned);
    return whole ? launch(std::true_type{}) : launch(std::false_type{});
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
