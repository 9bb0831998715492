// Softmax on a GPU. Some warps take a row: once for its maximum and sum, once more, from the cache,
// to write.
#include "real/cuda/softmax_cuda.h"
#include "real/cuda/wide.h"

namespace trainyard {

namespace {

constexpr int kBlock = 128;

/// The largest of some numbers, and the sum of exp(x - largest).
template <typename Sum>
struct Partial {
  Sum largest = -INFINITY, sum = 0;
};

template <typename Sum>
__device__ Partial<Sum> joined(const Partial<Sum>& a, const Partial<Sum>& b) {
  Partial<Sum> out;
  out.largest = a.largest > b.largest ? a.largest : b.largest;
  // All are -inf, or NaN, which is in the sums.
  if (out.largest == -INFINITY) {
    out.sum = a.sum + b.sum;
  } else {
    out.sum = a.sum * exp(a.largest - out.largest) + b.sum * exp(b.largest - out.largest);
  }
  return out;
}

__device__ inline Partial<float> from_lane(const Partial<float>& x, int step) {
  return {__shfl_xor_sync(~0U, x.largest, step), __shfl_xor_sync(~0U, x.sum, step)};
}
__device__ inline Partial<double> from_lane(const Partial<double>& x, int step) {
  return {__shfl_xor_sync(~0U, x.largest, step), __shfl_xor_sync(~0U, x.sum, step)};
}
__device__ inline float from_lane(float x, int step) { return __shfl_xor_sync(~0U, x, step); }
__device__ inline double from_lane(double x, int step) { return __shfl_xor_sync(~0U, x, step); }
__device__ inline float joined(float a, float b) { return a + b; }
__device__ inline double joined(double a, double b) { return a + b; }

/// All that the kRow threads of a row have: a warp, or the block.
template <int kRow, typename X>
__device__ X of_row(X mine) {
  for (int step = kWarp / 2; step > 0; step /= 2) mine = joined(mine, from_lane(mine, step));
  if constexpr (kRow == kWarp) return mine;
  __shared__ alignas(16) unsigned char memory[kBlock / kWarp * sizeof(X)];
  X* of_warps = reinterpret_cast<X*>(memory);
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = mine;
  __syncthreads();
  mine = of_warps[0];
  for (int warp = 1; warp < kRow / kWarp; ++warp) mine = joined(mine, of_warps[warp]);
  __syncthreads();  // the next row writes there
  return mine;
}

__device__ inline std::int64_t seen_columns(const SoftmaxShape& shape, std::int64_t row) {
  const std::int64_t seen = row % shape.queries + 1;
  return shape.causal && seen < shape.columns ? seen : shape.columns;
}

template <int kRow, int N, typename T>
__global__ void softmax(const T* x, T* y, const SoftmaxShape shape) {
  using Sum = typename Wide<T>::Type;
  constexpr int kRows = kBlock / kRow;
  const int lane = static_cast<int>(threadIdx.x) % kRow;
  const std::int64_t first = blockIdx.x * std::int64_t{kRows} + threadIdx.x / kRow;
  for (std::int64_t row = first; row < shape.rows; row += std::int64_t{gridDim.x} * kRows) {
    const T* from = x + row * shape.columns;
    T* to = y + row * shape.columns;
    const std::int64_t seen = seen_columns(shape, row);
    Partial<Sum> mine;
    for (std::int64_t c = lane * N; c < seen; c += kRow * N) {
      const Pack<T, N> pack = load<N>(from + c);
      Partial<Sum> of_pack;
      for (int i = 0; i < N; ++i) {
        const Sum value = widen(pack.at[i]);
        if (c + i < seen && value > of_pack.largest) of_pack.largest = value;
      }
      for (int i = 0; i < N; ++i) {
        const Sum value = widen(pack.at[i]);
        // NaN is not below anything: it makes the sum one.
        if (c + i < seen && value != Sum(-INFINITY)) of_pack.sum += exp(value - of_pack.largest);
      }
      mine = joined(mine, of_pack);
    }
    const Partial<Sum> all = of_row<kRow>(mine);
    const Sum factor = Sum(1) / all.sum;
    for (std::int64_t c = lane * N; c < shape.columns; c += kRow * N) {
      Pack<T, N> out;
      if (c < seen) out = load<N>(from + c);
      for (int i = 0; i < N; ++i) {
        out.at[i] = c + i < seen ? narrow<T>(exp(widen(out.at[i]) - all.largest) * factor)
                                 : narrow<T>(Sum(0));
      }
      store<N>(to + c, out);
    }
  }
}

template <int kRow, int N, typename T>
__global__ void softmax_dx(const T* dy, const T* y, T* dx, const SoftmaxShape shape) {
  using Sum = typename Wide<T>::Type;
  constexpr int kRows = kBlock / kRow;
  const int lane = static_cast<int>(threadIdx.x) % kRow;
  const std::int64_t first = blockIdx.x * std::int64_t{kRows} + threadIdx.x / kRow;
  for (std::int64_t row = first; row < shape.rows; row += std::int64_t{gridDim.x} * kRows) {
    const std::int64_t begin = row * shape.columns, seen = seen_columns(shape, row);
    Sum mine = 0;
    for (std::int64_t c = lane * N; c < seen; c += kRow * N) {
      const Pack<T, N> d = load<N>(dy + begin + c), p = load<N>(y + begin + c);
      for (int i = 0; i < N; ++i) {
        if (c + i < seen) mine += widen(d.at[i]) * widen(p.at[i]);
      }
    }
    const Sum sum = of_row<kRow>(mine);
    for (std::int64_t c = lane * N; c < shape.columns; c += kRow * N) {
      Pack<T, N> d, p;
      if (c < seen) d = load<N>(dy + begin + c), p = load<N>(y + begin + c);
      for (int i = 0; i < N; ++i) {
        p.at[i] =
            c + i < seen ? narrow<T>(widen(p.at[i]) * (widen(d.at[i]) - sum)) : narrow<T>(Sum(0));
      }
      store<N>(dx + begin + c, p);
    }
  }
}

/// launch(kRow, N), as integral constants.
template <typename T, typename Launch, typename... Pointers>
cudaError_t for_shape(const SoftmaxShape& shape, const Launch& launch, const T* first,
                      Pointers... others) {
  if (shape.rows * shape.columns == 0) return cudaSuccess;
  using One = std::integral_constant<int, 1>;
  using Vector = std::integral_constant<int, kVector<T>>;
  const bool packs = whole_vectors<T>(shape.columns) && aligned_to<kVector<T>>(first, others...);
  const bool is_short = shape.columns <= 2 * kWarp * (packs ? kVector<T> : 1);
  const auto of_rows = [&](auto row) {
    constexpr std::int64_t kRows = kBlock / row(), kMost = 1 << 30;
    const std::int64_t blocks = (shape.rows + kRows - 1) / kRows;
    const auto grid = static_cast<unsigned>(blocks < kMost ? blocks : kMost);
    packs ? launch(row, Vector{}, grid) : launch(row, One{}, grid);
    return cudaGetLastError();
  };
  return is_short ? of_rows(std::integral_constant<int, kWarp>{})
                  : of_rows(std::integral_constant<int, kBlock>{});
}

}  // namespace

cudaError_t launch_softmax(DType type, const void* x, void* y, const SoftmaxShape& shape,
                           cudaStream_t stream) {
  return for_type(type, [&](auto number) {
    using T = decltype(number);
    const T* from = static_cast<const T*>(x);
    T* to = static_cast<T*>(y);
    return for_shape(
        shape,
        [&](auto row, auto n, unsigned grid) {
          softmax<row(), n()><<<grid, kBlock, 0, stream>>>(from, to, shape);
        },
        from, to);
  });
}

cudaError_t launch_softmax_dx(DType type, const void* dy, const void* y, void* dx,
                              const SoftmaxShape& shape, cudaStream_t stream) {
  return for_type(type, [&](auto number) {
    using T = decltype(number);
    const T *d = static_cast<const T*>(dy), *p = static_cast<const T*>(y);
    T* to = static_cast<T*>(dx);
    return for_shape(
        shape,
        [&](auto row, auto n, unsigned grid) {
          softmax_dx<row(), n()><<<grid, kBlock, 0, stream>>>(d, p, to, shape);
        },
        d, p, to);
  });
}

}  // namespace trainyard
