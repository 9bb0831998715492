// Cross entropy on a GPU. A block takes a row: once for its maximum and sum, once to write.
#include "real/cuda/cross_entropy_cuda.h"
#include "real/cuda/wide.h"

namespace trainyard {

namespace {

constexpr int kRowThreads = 512;

/// The largest of some columns, and the sum of exp(x - largest).
template <typename Sum>
struct Partial {
  Sum largest, sum;
};

template <typename Sum>
__device__ Partial<Sum> joined(Partial<Sum> a, Partial<Sum> b) {
  const Sum largest = a.largest > b.largest ? a.largest : b.largest;
  if (isinf(largest) && largest < 0) return {largest, Sum(0)};
  return {largest, a.sum * exp(a.largest - largest) + b.sum * exp(b.largest - largest)};
}

template <typename Sum>
__device__ Partial<Sum> joined_in_block(Partial<Sum> mine) {
  __shared__ Partial<Sum> of_warps[kRowThreads / kWarp];
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const Partial<Sum> other{__shfl_xor_sync(~0U, mine.largest, step),
                             __shfl_xor_sync(~0U, mine.sum, step)};
    mine = joined(mine, other);
  }
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = mine;
  __syncthreads();
  mine = of_warps[0];
  for (int warp = 1; warp < kRowThreads / kWarp; ++warp) mine = joined(mine, of_warps[warp]);
  __syncthreads();  // the next row writes there
  return mine;
}

/// Rows of packs of N: what is behind `classes` is read with its pack, and not looked at.
template <int N, typename T>
__global__ void log_softmax(const T* __restrict__ x, typename Wide<T>::Type* __restrict__ y,
                            std::int64_t rows, std::int64_t columns, std::int64_t classes) {
  using Sum = typename Wide<T>::Type;
  constexpr int kWritten = 16 / static_cast<int>(sizeof(Sum)) < N ? 16 / sizeof(Sum) : N;
  const Sum nothing = -INFINITY;
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* from = x + row * columns;
    Sum* to = y + row * columns;
    Partial<Sum> mine{nothing, Sum(0)};
#pragma unroll 2
    for (std::int64_t c = threadIdx.x * std::int64_t{N}; c < classes; c += kRowThreads * N) {
      const Pack<T, N> pack = load<N>(from + c);
      Sum values[N], largest = mine.largest;
      for (int i = 0; i < N; ++i) {
        values[i] = c + i < classes ? widen(pack.at[i]) : nothing;
        if (values[i] > largest) largest = values[i];
      }
      if (largest > mine.largest) mine = {largest, mine.sum * exp(mine.largest - largest)};
      // Nothing less `nothing` would be NaN; a NaN among the values makes the sum one.
      const Sum less = largest == nothing ? Sum(0) : largest;
      for (int i = 0; i < N; ++i) mine.sum += exp(values[i] - less);
    }
    const Partial<Sum> all = joined_in_block(mine);
    const Sum log_sum = all.largest + log(all.sum);
#pragma unroll 2
    for (std::int64_t c = threadIdx.x * std::int64_t{N}; c < columns; c += kRowThreads * N) {
      const Pack<T, N> pack = load<N>(from + c);
      for (int begin = 0; begin < N; begin += kWritten) {
        Pack<Sum, kWritten> out;
        for (int i = 0; i < kWritten; ++i)
          out.at[i] = c + begin + i < classes ? widen(pack.at[begin + i]) - log_sum : nothing;
        store<kWritten>(to + c + begin, out);
      }
    }
  }
}

template <int N, typename T>
__global__ void cross_entropy_dx(const typename Wide<T>::Type* y, const std::int64_t* labels, T* dx,
                                 std::int64_t rows, std::int64_t columns, std::int64_t first_column,
                                 typename Wide<T>::Type scale) {
  using Sum = typename Wide<T>::Type;
  const std::int64_t packs = columns / N;
  for (std::int64_t t = first_thread(); t < rows * packs; t += all_threads()) {
    const std::int64_t row = t / packs, column = t % packs * N;
    const std::int64_t label = labels[row];
    const Pack<Sum, N> from = load<N>(y + row * columns + column);
    Pack<T, N> out;
    for (int i = 0; i < N; ++i) {
      const Sum is_label = label - first_column == column + i ? Sum(1) : Sum(0);
      out.at[i] = narrow<T>(label < 0 ? Sum(0) : (exp(from.at[i]) - is_label) * scale);
    }
    store<N>(dx + row * columns + column, out);
  }
}

}  // namespace

cudaError_t launch_log_softmax(DType type, const void* x, void* y, std::int64_t rows,
                               std::int64_t columns, std::int64_t classes, cudaStream_t stream) {
  if (rows == 0) return cudaSuccess;
  constexpr std::int64_t kMostBlocks = 65535;
  const auto blocks = static_cast<unsigned>(rows < kMostBlocks ? rows : kMostBlocks);
  return for_type(type, [&](auto number) {
    using T = decltype(number);
    const T* from = static_cast<const T*>(x);
    auto* to = static_cast<typename Wide<T>::Type*>(y);
    const auto launch = [&](auto n) {
      log_softmax<n()><<<blocks, kRowThreads, 0, stream>>>(from, to, rows, columns, classes);
      return cudaGetLastError();
    };
    const bool packs = whole_vectors<T>(columns) && aligned_to<kVector<T>>(from) &&
                       reinterpret_cast<std::uintptr_t>(to) % 16 == 0;
    return packs ? launch(std::integral_constant<int, kVector<T>>{})
                 : launch(std::integral_constant<int, 1>{});
  });
}

cudaError_t launch_cross_entropy_dx(DType type, const void* y, const std::int64_t* labels, void* dx,
                                    std::int64_t rows, std::int64_t columns,
                                    std::int64_t first_column, double scale, cudaStream_t stream) {
  if (rows * columns == 0) return cudaSuccess;
  return for_type(type, [&](auto number) {
    using T = decltype(number);
    using Sum = typename Wide<T>::Type;
    constexpr int kAtOnce = 16 / static_cast<int>(sizeof(Sum));
    const auto launch = [&](auto count) {
      cross_entropy_dx<count()><<<num_blocks(rows * columns / count()), kThreads, 0, stream>>>(
          static_cast<const Sum*>(y), labels, static_cast<T*>(dx), rows, columns, first_column,
          static_cast<Sum>(scale));
      return cudaGetLastError();
    };
    return columns % kAtOnce == 0 ? launch(std::integral_constant<int, kAtOnce>{})
                                  : launch(std::integral_constant<int, 1>{});
  });
}

}  // namespace trainyard
