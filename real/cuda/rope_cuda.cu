// Rotary positions on a GPU: each element by itself, with its partner read again.
#include "real/cuda/rope_cuda.h"
#include "real/cuda/wide.h"

namespace trainyard {

namespace {

template <int N, typename T>
__global__ void rotate(const T* x, const typename Wide<T>::Type* cos,
                       const typename Wide<T>::Type* sin, T* y, const RopeShape s) {
  const std::int64_t packs = s.row_width / N;
  for (std::int64_t t = first_thread(); t < s.rows * packs; t += all_threads()) {
    const std::int64_t row = t / packs, column = t % packs * N;
    const std::int64_t at = row * s.row_width + column;
    Pack<T, N> out = load<N>(x + at);
    const std::int64_t feature = column % s.head_dim;
    if (column < s.turned * s.head_dim && feature < 2 * s.half) {
      const bool first = feature < s.half;
      const Pack<T, N> partner = load<N>(x + (first ? at + s.half : at - s.half));
      const std::int64_t angle =
          (s.by_sample ? row : row % s.seq_len) * s.half + (first ? feature : feature - s.half);
      for (int i = 0; i < N; ++i) {
        const auto across = widen(partner.at[i]) * sin[angle + i];
        const auto along = widen(out.at[i]) * cos[angle + i];
        out.at[i] = narrow<T>(first ? along - across : along + across);
      }
    }
    store<N>(y + at, out);
  }
}

template <int N, typename T>
cudaError_t launch(const void* x, const void* cos, const void* sin, void* y, const RopeShape& s,
                   cudaStream_t stream) {
  using Sum = typename Wide<T>::Type;
  rotate<N><<<num_blocks(s.rows * s.row_width / N), kThreads, 0, stream>>>(
      static_cast<const T*>(x), static_cast<const Sum*>(cos), static_cast<const Sum*>(sin),
      static_cast<T*>(y), s);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_rope(DType type, const void* x, const void* cos, const void* sin, void* y,
                        const RopeShape& s, cudaStream_t stream) {
  if (s.rows == 0) return cudaSuccess;
  return for_type(type, [&](auto number) {
    using T = decltype(number);
    return whole_vectors<T>(s.row_width, s.head_dim, s.half)
               ? launch<kVector<T>, T>(x, cos, sin, y, s, stream)
               : launch<1, T>(x, cos, sin, y, s, stream);
  });
}

}  // namespace trainyard
