// Dropout on a GPU: a thread draws the words of four elements of a run.
#include "real/cuda/dropout_cuda.h"
#include "real/cuda/wide.h"

namespace trainyard {

namespace {

/// `groups`: of four elements, that a run of any alignment may touch.
template <typename T>
__global__ void drop(const T* from, T* to, const DropoutMask mask, std::int64_t groups) {
  using Sum = typename Wide<T>::Type;
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
      const std::int64_t at = r * run + i;
      to[at] = words[k] < mask.limit ? narrow<T>(Sum(0))
                                     : narrow<T>(widen(from[at]) * static_cast<Sum>(mask.scale));
    }
  }
}

template <typename T>
cudaError_t launch(const void* from, void* to, const DropoutMask& mask, cudaStream_t stream) {
  const std::int64_t groups = mask.run_length() / 4 + 2;
  if (mask.num_runs() == 0) return cudaSuccess;
  drop<T><<<num_blocks(mask.num_runs() * groups), kThreads, 0, stream>>>(
      static_cast<const T*>(from), static_cast<T*>(to), mask, groups);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_dropout(DType type, const void* from, void* to, const DropoutMask& mask,
                           cudaStream_t stream) {
  return for_type(type,
                  [&](auto number) { return launch<decltype(number)>(from, to, mask, stream); });
}

}  // namespace trainyard
