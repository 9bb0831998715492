// Dropout on a GPU: a thread draws the words of four elements of a run, or of a pack of them.
#include "real/cuda/dropout_cuda.h"
#include "real/cuda/wide.h"

namespace trainyard {

namespace {

template <typename T>
__device__ T kept_or_zero(T x, std::uint32_t word, const DropoutMask& mask) {
  using Sum = typename Wide<T>::Type;
  return word < mask.limit ? narrow<T>(Sum(0)) : narrow<T>(widen(x) * static_cast<Sum>(mask.scale));
}

/// `groups`: of four elements, that a run of any alignment may touch.
template <typename T>
__global__ void drop(const T* from, T* to, const DropoutMask mask, std::int64_t groups) {
  const std::int64_t threads = mask.num_runs() * groups;
  const std::int64_t run = mask.run_length();
  for (std::int64_t t = first_thread(); t < threads; t += all_threads()) {
    const std::int64_t r = t / groups;
    const std::uint64_t first = first_element(mask, r);
    const std::uint64_t element = first / 4 * 4 + static_cast<std::uint64_t>(t % groups) * 4;
    const PhiloxCounter words = dropout_words(mask, r, element);
    for (std::uint64_t k = 0; k < 4; ++k) {
      const std::int64_t i =
          static_cast<std::int64_t>(element + k) - static_cast<std::int64_t>(first);
      if (i < 0 || i >= run) continue;
      to[r * run + i] = kept_or_zero(from[r * run + i], words[k], mask);
    }
  }
}

/// Runs of whole packs, each of which begins at a multiple of four.
template <int N, typename T>
__global__ void drop_packs(const T* from, T* to, const DropoutMask mask) {
  static_assert(N % 4 == 0);
  const std::int64_t run = mask.run_length(), packs = run / N;
  for (std::int64_t r = blockIdx.y; r < mask.num_runs(); r += gridDim.y) {
    const std::uint64_t first = first_element(mask, r);
    for (std::int64_t p = first_thread(); p < packs; p += all_threads()) {
      const std::int64_t at = r * run + p * N;
      const Pack<T, N> in = load<N>(from + at);
      Pack<T, N> out;
      for (int g = 0; g < N; g += 4) {
        const PhiloxCounter words =
            dropout_words(mask, r, first + static_cast<std::uint64_t>(p * N + g));
        for (std::size_t k = 0; k < 4; ++k)
          out.at[g + k] = kept_or_zero(in.at[g + k], words[k], mask);
      }
      store<N>(to + at, out);
    }
  }
}

template <typename T>
cudaError_t launch(const T* from, T* to, const DropoutMask& mask, cudaStream_t stream) {
  constexpr int kAtOnce = kVector<T> < 4 ? 4 : kVector<T>;
  const int last = mask.dims - 1;
  // Runs begin whole rows of the whole tensor apart.
  const bool packs = mask.dims > 1 && mask.run_length() % kAtOnce == 0 &&
                     mask.whole[last] % 4 == 0 && mask.start[last] % 4 == 0 &&
                     aligned_to<kAtOnce>(from, to);
  if (!packs) {
    const std::int64_t groups = mask.run_length() / 4 + 2;
    drop<<<num_blocks(mask.num_runs() * groups), kThreads, 0, stream>>>(from, to, mask, groups);
    return cudaGetLastError();
  }
  constexpr std::int64_t kPacksOfThread = 4, kMost = 65535;
  const unsigned across =
      num_blocks((mask.run_length() / kAtOnce + kPacksOfThread - 1) / kPacksOfThread);
  const std::int64_t runs = mask.num_runs();
  const dim3 grid(across, static_cast<unsigned>(runs < kMost ? runs : kMost));
  drop_packs<kAtOnce><<<grid, kThreads, 0, stream>>>(from, to, mask);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_dropout(DType type, const void* from, void* to, const DropoutMask& mask,
                           cudaStream_t stream) {
  if (mask.num_runs() == 0 || mask.run_length() == 0) return cudaSuccess;
  return for_type(type, [&](auto number) {
    using T = decltype(number);
    return launch(static_cast<const T*>(from), static_cast<T*>(to), in_long_runs(mask), stream);
  });
}

}  // namespace trainyard
