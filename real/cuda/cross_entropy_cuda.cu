// Cross entropy on a GPU. A block takes a row: once for its maximum and sum, once to write. What it
// has read first stays in shared memory, as far as that goes, since rows of a vocabulary are larger
// together than the caches.
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

/// A row of packs of N behind its first columns, which are before the first whole vector of memory,
/// and what is left behind the packs.
struct RowOfPacks {
  std::int64_t head, packs, columns;
};

template <int N>
__device__ RowOfPacks row_of_packs(std::int64_t row, std::int64_t columns) {
  const std::int64_t head = (N - row * columns % N) % N;
  if (head >= columns) return {columns, 0, columns};
  return {head, (columns - head) / N, columns};
}

/// Calls one(column) for this thread's share of the columns that are in no pack.
template <int N, typename One>
__device__ void for_single_columns(const RowOfPacks& row, One one) {
  const std::int64_t thread = threadIdx.x, tail = row.head + row.packs * N;
  if (thread < row.head) one(thread);
  if (thread < row.columns - tail) one(tail + thread);
}

/// Written once and not read soon: it is to leave the caches to what is.
template <int N, typename T>
__device__ void store_past(T* to, const Pack<T, N>& pack) {
  if constexpr (sizeof(pack) == sizeof(uint4)) {
    __stcs(reinterpret_cast<uint4*>(to), *reinterpret_cast<const uint4*>(&pack));
  } else {
    store<N>(to, pack);
  }
}

/// Neighbours that a vector of 16 bytes of Sum holds, of packs of N.
template <int N, typename Sum>
constexpr int kWritten = 16 / static_cast<int>(sizeof(Sum)) < N ? 16 / static_cast<int>(sizeof(Sum))
                                                                : N;

/// `mine` with N more numbers.
template <int N, typename Sum>
__device__ Partial<Sum> with(Partial<Sum> mine, const Sum (&values)[N]) {
  const Sum nothing = -INFINITY;
  Sum largest = mine.largest;
  for (int i = 0; i < N; ++i) {
    if (values[i] > largest) largest = values[i];
  }
  if (largest > mine.largest) mine = {largest, mine.sum * exp(mine.largest - largest)};
  // Nothing less `nothing` would be NaN; a NaN among the values makes the sum one.
  const Sum less = largest == nothing ? Sum(0) : largest;
  for (int i = 0; i < N; ++i) mine.sum += exp(values[i] - less);
  return mine;
}

/// What is behind `classes` is read with its pack, and not looked at. The first `kept` packs of a
/// row stay in shared memory.
template <int N, typename T>
__global__ void __launch_bounds__(kRowThreads)
    log_softmax(const T* __restrict__ x, typename Wide<T>::Type* __restrict__ y, std::int64_t rows,
                std::int64_t columns, std::int64_t classes, std::int64_t kept) {
  using Sum = typename Wide<T>::Type;
  constexpr int kAtOnce = kWritten<N, Sum>;
  extern __shared__ uint4 of_row[];
  Pack<T, N>* const row_here = reinterpret_cast<Pack<T, N>*>(of_row);
  const Sum nothing = -INFINITY;
  const std::int64_t thread = threadIdx.x;
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* from = x + row * columns;
    Sum* to = y + row * columns;
    const RowOfPacks of = row_of_packs<N>(row, columns);
    Partial<Sum> mine{nothing, Sum(0)};
    for_single_columns<N>(of, [&](std::int64_t c) {
      const Sum value[1] = {c < classes ? static_cast<Sum>(widen(from[c])) : nothing};
      mine = with(mine, value);
    });
#pragma unroll 2
    for (std::int64_t p = thread; p < of.packs; p += kRowThreads) {
      const std::int64_t c = of.head + p * N;
      const Pack<T, N> pack = load<N>(from + c);
      if (p < kept) row_here[p] = pack;
      Sum values[N];
      for (int i = 0; i < N; ++i) values[i] = c + i < classes ? widen(pack.at[i]) : nothing;
      mine = with(mine, values);
    }
    const Partial<Sum> all = joined_in_block(mine);
    const Sum log_sum = all.largest + log(all.sum);
    for_single_columns<N>(
        of, [&](std::int64_t c) { to[c] = c < classes ? widen(from[c]) - log_sum : nothing; });
#pragma unroll 2
    for (std::int64_t p = thread; p < of.packs; p += kRowThreads) {
      const std::int64_t c = of.head + p * N;
      const Pack<T, N> pack = p < kept ? row_here[p] : load<N>(from + c);  // a thread's own packs
      for (int begin = 0; begin < N; begin += kAtOnce) {
        Pack<Sum, kAtOnce> out;
        for (int i = 0; i < kAtOnce; ++i)
          out.at[i] = c + begin + i < classes ? widen(pack.at[begin + i]) - log_sum : nothing;
        store_past(to + c + begin, out);
      }
    }
  }
}

/// A row without a label is not read.
template <int N, typename T>
__global__ void __launch_bounds__(kRowThreads)
    cross_entropy_dx(const typename Wide<T>::Type* __restrict__ y,
                     const std::int64_t* __restrict__ labels, T* __restrict__ dx, std::int64_t rows,
                     std::int64_t columns, std::int64_t first_column,
                     typename Wide<T>::Type scale) {
  using Sum = typename Wide<T>::Type;
  constexpr int kAtOnce = kWritten<N, Sum>;
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const Sum* from = y + row * columns;
    T* to = dx + row * columns;
    const RowOfPacks of = row_of_packs<N>(row, columns);
    const bool predicted = labels[row] >= 0;
    const std::int64_t label = labels[row] - first_column;
    const auto gradient = [&](std::int64_t column, Sum of_column) {
      const Sum is_label = label == column ? Sum(1) : Sum(0);
      return narrow<T>((exp(of_column) - is_label) * scale);
    };
    for_single_columns<N>(
        of, [&](std::int64_t c) { to[c] = predicted ? gradient(c, from[c]) : narrow<T>(Sum(0)); });
#pragma unroll 2
    for (std::int64_t p = threadIdx.x; p < of.packs; p += kRowThreads) {
      const std::int64_t c = of.head + p * N;
      Pack<T, N> out;
      if (predicted) {
        for (int begin = 0; begin < N; begin += kAtOnce) {
          const Pack<Sum, kAtOnce> part = load<kAtOnce>(from + c + begin);
          for (int i = 0; i < kAtOnce; ++i) out.at[begin + i] = gradient(c + begin + i, part.at[i]);
        }
      } else {
        for (int i = 0; i < N; ++i) out.at[i] = narrow<T>(Sum(0));
      }
      store_past(to + c, out);
    }
  }
}

unsigned blocks_of(std::int64_t rows) {
  constexpr std::int64_t kMostBlocks = 65535;
  return static_cast<unsigned>(rows < kMostBlocks ? rows : kMostBlocks);
}

/// Whether rows, one behind the other from there on, have vectors of 16 bytes at the same columns.
bool on_vectors(const void* a, const void* b) {
  return reinterpret_cast<std::uintptr_t>(a) % 16 == 0 &&
         reinterpret_cast<std::uintptr_t>(b) % 16 == 0;
}

}  // namespace

cudaError_t launch_log_softmax(DType type, const void* x, void* y, std::int64_t rows,
                               std::int64_t columns, std::int64_t classes, cudaStream_t stream) {
  if (rows == 0) return cudaSuccess;
  return for_type(type, [&](auto number) {
    using T = decltype(number);
    const T* from = static_cast<const T*>(x);
    auto* to = static_cast<typename Wide<T>::Type*>(y);
    const auto launch = [&](auto n) {
      constexpr int kBytes = n() * static_cast<int>(sizeof(T));
      constexpr std::int64_t kMostKept = 104 << 10;  // two blocks have so much on a Hopper
      const auto kernel = log_softmax<n(), T>;
      const std::int64_t packs = columns / n(), most = kMostKept / kBytes;
      // Where a GPU has less, nothing stays.
      std::int64_t kept = packs < most ? packs : most;
      if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(kept * kBytes)) != cudaSuccess) {
        cudaGetLastError();
        kept = 0;
      }
      kernel<<<blocks_of(rows), kRowThreads, static_cast<std::size_t>(kept * kBytes), stream>>>(
          from, to, rows, columns, classes, kept);
      return cudaGetLastError();
    };
    return on_vectors(from, to) ? launch(std::integral_constant<int, kVector<T>>{})
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
    const auto launch = [&](auto n) {
      cross_entropy_dx<n(), T><<<blocks_of(rows), kRowThreads, 0, stream>>>(
          static_cast<const Sum*>(y), labels, static_cast<T*>(dx), rows, columns, first_column,
          static_cast<Sum>(scale));
      return cudaGetLastError();
    };
    return on_vectors(y, dx) ? launch(std::integral_constant<int, kVector<T>>{})
                             : launch(std::integral_constant<int, 1>{});
  });
}

}  // namespace trainyard
