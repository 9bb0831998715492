// Pairs of a chunk's tokens on a GPU: how much of each column's token is left at each row's.
#include "real/cuda/scan_cuda.h"
#include "real/cuda/scan_numbers.h"

namespace trainyard {

namespace {

template <int N, typename T>
__global__ void scan_weights(const typename Wide<T>::Type* scores, const double* past,
                             typename Work<T>::Type* weights, const ScanShape shape) {
  using Sum = typename Wide<T>::Type;
  using W = typename Work<T>::Type;
  const std::int64_t tokens = shape.tokens, packs = tokens / N;
  const std::int64_t all = shape.cells * shape.all_heads() * tokens * packs;
  for (std::int64_t t = first_thread(); t < all; t += all_threads()) {
    const std::int64_t column = t % packs * N, row = t / packs % tokens,
                       head = t / packs / tokens;  // of all cells
    Pack<W, N> out;
    for (int i = 0; i < N; ++i) out.at[i] = narrow<W>(0);
    if (column <= row) {
      const double* steps = past + head * tokens;
      const Pack<Sum, N> score =
          load<N>(scores + (head / shape.heads * tokens + row) * tokens + column);
      for (int i = 0; i < N; ++i) {
        if (column + i > row) continue;
        const Sum decay = exp(static_cast<Sum>(steps[row] - steps[column + i]));
        out.at[i] = narrow<W>(decay * score.at[i]);
      }
    }
    store<N>(weights + (head * tokens + row) * tokens + column, out);
  }
}

/// A warp takes a row of a cell and group, P packs of N columns in each lane, through its heads.
/// The gradient of token k's dt A is the sum over rows from k on and columns in front of k of a
/// weight times its gradient: of a row the sums up to each column, which the block adds up.
template <int N, int P, int kWarps, typename T>
__global__ void __launch_bounds__(kWarps* kWarp)
    scan_pairs_b(const typename Wide<T>::Type* scores, const double* past,
                 typename Work<T>::Type* pairs, typename Work<T>::Type* scores_gradient,
                 typename Wide<T>::Type* steps, const ScanShape shape, std::int64_t parts) {
  using Sum = typename Wide<T>::Type;
  using W = typename Work<T>::Type;
  __shared__ Sum of_rows[kWarps][kWarp * N * P];
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = lane_of_warp();
  const std::int64_t tokens = shape.tokens, part = blockIdx.x % parts,
                     group = blockIdx.x / parts;  // of all cells
  const std::int64_t row = part * kWarps + warp;
  const bool here = row < tokens;
  Sum score[P][N], gradient[P][N];
  for (int p = 0; p < P; ++p) {
    const int column = (p * kWarp + lane) * N;
    for (int i = 0; i < N; ++i) {
      const bool read = here && column + i <= row;
      score[p][i] = read ? scores[(group * tokens + row) * tokens + column + i] : Sum(0);
      gradient[p][i] = 0;
    }
  }
  for (std::int64_t head = group * shape.heads; head < (group + 1) * shape.heads; ++head) {
    const double* of_head = past + head * tokens;
    W* of_row = pairs + (head * tokens + row) * tokens;
    const double mine = here ? of_head[row] : 0;
    Sum before = 0;
    for (int p = 0; p < P; ++p) {
      const int column = (p * kWarp + lane) * N;
      Sum sums[N], sum = 0;  // of the lane's columns in front of each
      Pack<W, N> in, out;
      for (int i = 0; i < N; ++i) in.at[i] = out.at[i] = narrow<W>(0);
      if (here && column <= row) in = load<N>(of_row + column);
      for (int i = 0; i < N; ++i) {
        sums[i] = sum;
        if (!here || column + i > row) continue;
        const Sum decay = exp(static_cast<Sum>(mine - of_head[column + i]));
        const Sum of_score = widen(in.at[i]) * decay;
        gradient[p][i] += of_score;
        out.at[i] = narrow<W>(decay * score[p][i]);
        sum += of_score * score[p][i];
      }
      if (here && column < tokens) store<N>(of_row + column, out);
      const Sum up_to = running_sum<false>(sum), one_less = __shfl_up_sync(~0U, up_to, 1);
      const Sum in_front = before + (lane > 0 ? one_less : Sum(0));
      for (int i = 0; i < N; ++i)
        of_rows[warp][column + i] = here && column + i <= row ? in_front + sums[i] : Sum(0);
      before += __shfl_sync(~0U, up_to, kWarp - 1);
    }
    __syncthreads();
    for (std::int64_t k = threadIdx.x; k < tokens; k += kWarps * kWarp) {
      Sum sum = 0;
      for (int i = 0; i < kWarps; ++i) sum += of_rows[i][k];
      steps[(head * parts + part) * tokens + k] = sum;
    }
    __syncthreads();  // the next head's are written there
  }
  for (int p = 0; p < P; ++p) {
    const int column = (p * kWarp + lane) * N;
    for (int i = 0; i < N; ++i) {
      if (here && column + i < tokens)
        scores_gradient[(group * tokens + row) * tokens + column + i] = narrow<W>(gradient[p][i]);
    }
  }
}

constexpr std::int64_t kMostTokens = 1024;

/// f(N, P, warps of a block) for rows of so many tokens.
template <typename T, typename F>
auto for_rows(std::int64_t tokens, F f) {
  constexpr int kFewWarps = 32 / static_cast<int>(sizeof(typename Wide<T>::Type));  // 32 KiB
  using One = std::integral_constant<int, 1>;
  using Four = std::integral_constant<int, 4>;
  using Few = std::integral_constant<int, kFewWarps>;
  using Many = std::integral_constant<int, 16>;
  using Two = std::integral_constant<int, 2>;
  using Eight = std::integral_constant<int, 8>;
  if (tokens % 4 != 0) {
    return tokens <= 8 * kWarp ? f(One{}, Eight{}, Few{})
                               : f(One{}, std::integral_constant<int, 32>{}, Few{});
  }
  return tokens <= 8 * kWarp ? f(Four{}, Two{}, Many{}) : f(Four{}, Eight{}, Few{});
}

}  // namespace

bool scan_fits(std::int64_t tokens) { return tokens <= kMostTokens; }

std::int64_t scan_row_parts(DType type, const ScanShape& shape) {
  std::int64_t parts = 0;
  for_type(type, [&](auto number) {
    parts = for_rows<decltype(number)>(shape.tokens, [&](auto, auto, auto warps) {
      return (shape.tokens + warps() - 1) / warps();
    });
    return cudaSuccess;
  });
  return parts;
}

cudaError_t launch_scan_weights(DType type, const void* scores, const double* past, void* weights,
                                const ScanShape& shape, cudaStream_t stream) {
  return for_type(type, [&](auto number) {
    using T = decltype(number);
    const auto launch = [&](auto n) {
      const std::int64_t pairs = shape.cells * shape.all_heads() * shape.tokens * shape.tokens;
      scan_weights<n(), T><<<num_blocks(pairs / n()), kThreads, 0, stream>>>(
          static_cast<const typename Wide<T>::Type*>(scores), past,
          static_cast<typename Work<T>::Type*>(weights), shape);
      return cudaGetLastError();
    };
    return shape.tokens % 4 == 0 ? launch(std::integral_constant<int, 4>{})
                                 : launch(std::integral_constant<int, 1>{});
  });
}

cudaError_t launch_scan_pairs_b(DType type, const ScanPairsGradient& of, const ScanShape& shape,
                                cudaStream_t stream) {
  return for_type(type, [&](auto number) {
    using T = decltype(number);
    using Sum = typename Wide<T>::Type;
    using W = typename Work<T>::Type;
    const std::int64_t parts = scan_row_parts(type, shape);
    const auto blocks = static_cast<unsigned>(shape.cells * shape.groups * parts);
    return for_rows<T>(shape.tokens, [&](auto n, auto p, auto warps) {
      scan_pairs_b<n(), p(), warps(), T><<<blocks, warps() * kWarp, 0, stream>>>(
          static_cast<const Sum*>(of.scores), of.past, static_cast<W*>(of.pairs),
          static_cast<W*>(of.scores_gradient), static_cast<Sum*>(of.steps), shape, parts);
      return cudaGetLastError();
    });
  });
}

}  // namespace trainyard
