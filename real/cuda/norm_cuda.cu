// Norms on a GPU. Some warps of a block hold a row in registers, and the block goes on to other
// rows; backward keeps its sums for weights over all of them, and a second kernel adds up the
// blocks' in their order.
#include "real/cuda/norm_cuda.h"
#include "real/cuda/wide.h"

namespace trainyard {

namespace {

constexpr int kWarps = 8;  // of a block
constexpr int kBlocksOfMultiprocessor = 2;

/// How a row lies in `warps` warps: `P` packs of N neighbours in each thread.
struct Layout {
  int warps = 1;
  int rows() const { return kWarps / warps; }  // of a block at once
  int threads() const { return rows() * warps * kWarp; }
};

/// A thread's place: of the block's rows at once, and in its row.
struct Place {
  int warps, slot, rows, thread;
  __device__ explicit Place(int of_row)
      : warps(of_row),
        slot(static_cast<int>(threadIdx.x) / (of_row * kWarp)),
        rows(static_cast<int>(blockDim.x) / (of_row * kWarp)),
        thread(static_cast<int>(threadIdx.x) % (of_row * kWarp)) {}
  __device__ std::int64_t column(int pack, int n) const {
    return (static_cast<std::int64_t>(pack) * warps * kWarp + thread) * n;
  }
};

/// Sums of a row's threads; all of the block call it.
template <typename Sum>
__device__ void add_up(const Place& place, Sum& a, Sum& b) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    a += __shfl_xor_sync(~0U, a, step);
    b += __shfl_xor_sync(~0U, b, step);
  }
  if (place.warps == 1) return;
  __shared__ Sum of_warps[2][kWarps];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  if (threadIdx.x % kWarp == 0) of_warps[0][warp] = a, of_warps[1][warp] = b;
  __syncthreads();
  a = b = 0;
  for (int i = 0; i < place.warps; ++i) {
    a += of_warps[0][place.slot * place.warps + i];
    b += of_warps[1][place.slot * place.warps + i];
  }
  __syncthreads();  // the next sums are written there
}

template <int N, int P, typename T>
__device__ void load_row(const Place& place, const T* from, std::int64_t columns,
                         Pack<T, N> (&to)[P]) {
  for (int p = 0; p < P; ++p) {
    const std::int64_t column = place.column(p, N);
    if (from != nullptr && column < columns) {
      to[p] = load<N>(from + column);
    } else {
      for (int i = 0; i < N; ++i) to[p].at[i] = narrow<T>(0);
    }
  }
}

template <int N, int P, typename Sum>
__device__ void load_features(const Place& place, const SomeNumbers& of, Sum plus,
                              std::int64_t columns, Sum (&to)[P][N]) {
  for (int p = 0; p < P; ++p) {
    for (int i = 0; i < N; ++i) {
      const std::int64_t column = place.column(p, N) + i;
      to[p][i] = of.data != nullptr && column < columns ? number_at<Sum>(of, column) + plus : plus;
    }
  }
}

template <bool kMean, int N, int P, typename T>
__global__ void __launch_bounds__(kWarps* kWarp)
    norm(const T* x, const SomeNumbers weight, const SomeNumbers bias, T* y,
         typename Wide<T>::Type* statistics, const NormShape shape, int warps) {
  using Sum = typename Wide<T>::Type;
  const Place place(warps);
  Sum w[P][N], b[P][N];
  load_features<N, P, Sum>(place, weight, static_cast<Sum>(shape.shift), shape.columns, w);
  if (kMean) load_features<N, P, Sum>(place, bias, Sum(0), shape.columns, b);
  const Sum count = static_cast<Sum>(shape.columns);
  const std::int64_t step = std::int64_t{gridDim.x} * place.rows;
  for (std::int64_t first = blockIdx.x * std::int64_t{place.rows}; first < shape.rows;
       first += step) {
    const std::int64_t row = first + place.slot;
    const bool here = row < shape.rows;
    Pack<T, N> in[P];
    load_row<N, P>(place, here ? x + row * shape.columns : nullptr, shape.columns, in);
    Sum mean = 0, squares = 0, none = 0;
    if (kMean) {
      for (int p = 0; p < P; ++p) {
        for (int i = 0; i < N; ++i) mean += widen(in[p].at[i]);
      }
      add_up(place, mean, none);
      mean /= count;
    }
    for (int p = 0; p < P; ++p) {
      for (int i = 0; i < N; ++i) {
        const Sum from_mean = widen(in[p].at[i]) - mean;
        if (place.column(p, N) < shape.columns) squares += from_mean * from_mean;
      }
    }
    add_up(place, squares, none);
    const Sum rstd = Sum(1) / sqrt(squares / count + static_cast<Sum>(shape.eps));
    if (!here) continue;
    if (place.thread == 0) {
      if (kMean) statistics[2 * row] = mean;
      statistics[kMean ? 2 * row + 1 : row] = rstd;
    }
    for (int p = 0; p < P; ++p) {
      if (place.column(p, N) >= shape.columns) continue;
      Pack<T, N> out;
      for (int i = 0; i < N; ++i) {
        const Sum z = (widen(in[p].at[i]) - mean) * rstd * w[p][i];
        out.at[i] = narrow<T>(kMean ? z + b[p][i] : z);
      }
      store<N>(y + row * shape.columns + place.column(p, N), out);
    }
  }
}

/// With z = (x - m) r and g = dy w of n features: dx = r (g - (sum g + z sum g z) / n), dw = sum dy
/// z, db = sum dy.
template <bool kMean, int N, int P, typename T>
__global__ void __launch_bounds__(kWarps* kWarp, P > 2 ? 1 : kBlocksOfMultiprocessor)
    norm_b(const T* dy, const T* x, const typename Wide<T>::Type* statistics,
           const SomeNumbers weight, T* dx, typename Wide<T>::Type* partial, const NormShape shape,
           int warps) {
  using Sum = typename Wide<T>::Type;
  const Place place(warps);
  Sum w[P][N], dw[P][N], db[P][N];
  load_features<N, P, Sum>(place, weight, static_cast<Sum>(shape.shift), shape.columns, w);
  load_features<N, P, Sum>(place, {}, Sum(0), shape.columns, dw);
  load_features<N, P, Sum>(place, {}, Sum(0), shape.columns, db);
  const Sum count = static_cast<Sum>(shape.columns);
  const std::int64_t step = std::int64_t{gridDim.x} * place.rows;
  Pack<T, N> next_in[P], next_d[P];
  const auto load_next = [&](std::int64_t row) {  // on the way while a row is worked on
    const bool there = row < shape.rows;
    load_row<N, P>(place, there ? x + row * shape.columns : nullptr, shape.columns, next_in);
    load_row<N, P>(place, there ? dy + row * shape.columns : nullptr, shape.columns, next_d);
  };
  std::int64_t first = blockIdx.x * std::int64_t{place.rows};
  load_next(first + place.slot);
  for (; first < shape.rows; first += step) {
    const std::int64_t row = first + place.slot;
    const bool here = row < shape.rows;
    const std::int64_t begin = row * shape.columns;
    Pack<T, N> in[P], d[P];
    for (int p = 0; p < P; ++p) in[p] = next_in[p], d[p] = next_d[p];
    load_next(row + step);
    const Sum mean = kMean && here ? statistics[2 * row] : Sum(0);
    const Sum rstd = here ? statistics[kMean ? 2 * row + 1 : row] : Sum(0);
    Sum sum = 0, product = 0;
    for (int p = 0; p < P; ++p) {
      for (int i = 0; i < N; ++i) {
        const Sum gradient = widen(d[p].at[i]), z = (widen(in[p].at[i]) - mean) * rstd;
        dw[p][i] += gradient * z;
        if (kMean) db[p][i] += gradient;
        if (kMean) sum += gradient * w[p][i];
        product += gradient * w[p][i] * z;
      }
    }
    if (dx == nullptr) continue;
    add_up(place, sum, product);
    if (!here) continue;
    sum /= count, product /= count;
    for (int p = 0; p < P; ++p) {
      if (place.column(p, N) >= shape.columns) continue;
      Pack<T, N> out;
      for (int i = 0; i < N; ++i) {
        const Sum z = (widen(in[p].at[i]) - mean) * rstd;
        out.at[i] = narrow<T>((widen(d[p].at[i]) * w[p][i] - sum - z * product) * rstd);
      }
      store<N>(dx + begin + place.column(p, N), out);
    }
  }
  // The block's rows at once, one after the other.
  Sum* mine = partial + blockIdx.x * 2 * shape.columns;
  for (int slot = 0; slot < place.rows; ++slot) {
    for (int p = 0; p < P; ++p) {
      const std::int64_t column = place.column(p, N);
      if (slot != place.slot || column >= shape.columns) continue;
      for (int i = 0; i < N; ++i) {
        Sum *to_w = mine + column + i, *to_b = to_w + shape.columns;
        *to_w = slot == 0 ? dw[p][i] : *to_w + dw[p][i];
        if (kMean) *to_b = slot == 0 ? db[p][i] : *to_b + db[p][i];
      }
    }
    __syncthreads();
  }
}

constexpr int kRowsAtOnce = 8;

template <typename Sum>
__global__ void add_partials(const Sum* partial, std::int64_t blocks, std::int64_t columns,
                             const SomeNumbers dw, const SomeNumbers db) {
  __shared__ Sum parts[kRowsAtOnce][kWarp];
  const std::int64_t column = blockIdx.x * std::int64_t{kWarp} + threadIdx.x;
  const SomeNumbers& to = blockIdx.y == 0 ? dw : db;
  const Sum* from = partial + blockIdx.y * columns;
  Sum sum = 0;
  if (column < columns) {
    for (std::int64_t block = threadIdx.y; block < blocks; block += kRowsAtOnce)
      sum += from[block * 2 * columns + column];
  }
  parts[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  for (int i = 1; i < kRowsAtOnce; ++i) sum += parts[i][threadIdx.x];
  add_number(to, column, sum);
}

std::int64_t num_multiprocessors() {
  int device = 0, count = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
  return count;
}

/// f(N, P, layout) for packs of N, P of them in each thread; false: a row is too long.
template <typename T, typename F>
bool for_layout(std::int64_t columns, bool packs, F f) {
  const auto with = [&](auto n, auto p) {
    constexpr std::int64_t kOfWarp = std::int64_t{kWarp} * n() * p();
    const std::int64_t warps = (columns + kOfWarp - 1) / kOfWarp;
    if (warps > kWarps) return false;
    f(n, p, Layout{static_cast<int>(warps)});
    return true;
  };
  using One = std::integral_constant<int, 1>;
  using Vector = std::integral_constant<int, kVector<T>>;
  if (!packs) return with(One{}, std::integral_constant<int, 8>{});
  return with(Vector{}, std::integral_constant<int, 2>{}) ||
         with(Vector{}, std::integral_constant<int, 4>{});
}

std::int64_t num_row_blocks(std::int64_t rows, const Layout& layout) {
  const std::int64_t blocks = (rows + layout.rows() - 1) / layout.rows(),
                     most = kBlocksOfMultiprocessor * num_multiprocessors();
  return blocks < most ? blocks : most;
}

}  // namespace

bool norm_fits(DType type, std::int64_t columns, bool aligned) {
  bool fits = false;
  for_type(type, [&](auto number) {
    using T = decltype(number);
    const bool packs = aligned && whole_vectors<T>(columns);
    fits = for_layout<T>(columns, packs, [](auto, auto, const Layout&) {});
    return cudaSuccess;
  });
  return fits;
}

std::int64_t norm_partials(DType type, const NormShape& shape) {
  std::int64_t blocks = 0;
  for_type(type, [&](auto number) {
    using T = decltype(number);
    const auto note = [&](auto, auto, const Layout& layout) {
      const std::int64_t more = num_row_blocks(shape.rows, layout);
      blocks = more > blocks ? more : blocks;
    };
    for_layout<T>(shape.columns, false, note);
    if (whole_vectors<T>(shape.columns)) for_layout<T>(shape.columns, true, note);
    return cudaSuccess;
  });
  return blocks;
}

cudaError_t launch_norm(DType type, const void* x, const SomeNumbers& weight,
                        const SomeNumbers& bias, void* y, void* statistics, const NormShape& shape,
                        cudaStream_t stream) {
  if (shape.rows * shape.columns == 0) return cudaSuccess;
  return for_type(type, [&](auto number) {
    using T = decltype(number);
    const T* from = static_cast<const T*>(x);
    T* to = static_cast<T*>(y);
    auto* of_rows = static_cast<typename Wide<T>::Type*>(statistics);
    const bool packs = whole_vectors<T>(shape.columns) && aligned_to<kVector<T>>(from, to);
    const bool fits = for_layout<T>(shape.columns, packs, [&](auto n, auto p, const Layout& how) {
      // All that run at once: the forward keeps no sums.
      const std::int64_t blocks = (shape.rows + how.rows() - 1) / how.rows(),
                         most = 4 * num_multiprocessors();
      const auto grid = static_cast<unsigned>(blocks < most ? blocks : most);
      const auto launch = [&](auto has_mean) {
        norm<has_mean(), n(), p()><<<grid, static_cast<unsigned>(how.threads()), 0, stream>>>(
            from, weight, bias, to, of_rows, shape, how.warps);
      };
      shape.has_mean ? launch(std::true_type{}) : launch(std::false_type{});
    });
    return fits ? cudaGetLastError() : cudaErrorInvalidValue;
  });
}

cudaError_t launch_norm_b(DType type, const NormGradient& of, const NormShape& shape,
                          cudaStream_t stream) {
  if (shape.rows * shape.columns == 0) return cudaSuccess;
  return for_type(type, [&](auto number) {
    using T = decltype(number);
    using Sum = typename Wide<T>::Type;
    const T *dy = static_cast<const T*>(of.dy), *x = static_cast<const T*>(of.x);
    T* dx = static_cast<T*>(of.dx);
    Sum* partial = static_cast<Sum*>(of.partial);
    const bool packs = whole_vectors<T>(shape.columns) && aligned_to<kVector<T>>(dy, x, dx);
    std::int64_t blocks = 0;
    const bool fits = for_layout<T>(shape.columns, packs, [&](auto n, auto p, const Layout& how) {
      blocks = num_row_blocks(shape.rows, how);
      const auto launch = [&](auto has_mean) {
        norm_b<has_mean(), n(), p()>
            <<<static_cast<unsigned>(blocks), static_cast<unsigned>(how.threads()), 0, stream>>>(
                dy, x, static_cast<const Sum*>(of.statistics), of.weight, dx, partial, shape,
                how.warps);
      };
      shape.has_mean ? launch(std::true_type{}) : launch(std::false_type{});
    });
    if (!fits) return cudaErrorInvalidValue;
    if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return error;
    const dim3 grid(static_cast<unsigned>((shape.columns + kWarp - 1) / kWarp),
                    of.db.data != nullptr ? 2 : 1);
    add_partials<<<grid, dim3(kWarp, kRowsAtOnce), 0, stream>>>(partial, blocks, shape.columns,
                                                                of.dw, of.db);
    return cudaGetLastError();
  });
}

}  // namespace trainyard
