// AdamW on a GPU: one pass over a bucket, whatever ranges of it decay.
#include <algorithm>

#include "real/cuda/adamw_cuda.h"
#include "real/cuda/wide.h"

namespace trainyard {

namespace {

constexpr int kMostRanges = 96;  // of a launch: they travel with its arguments

struct Ranges {
  std::int64_t begin[kMostRanges + 1] = {};  // the last: the end
  double keep[kMostRanges] = {};             // of weights, before what moves them
  bool updated[kMostRanges] = {};
  int count = 0;

  __device__ int of(std::int64_t i) const {
    int low = 0, high = count;  // the range is in [low, high)
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (begin[middle] <= i ? low : high) = middle;
    }
    return low;
  }
};

template <int N, typename From, typename Sum>
__device__ void load_as(const void* data, std::int64_t i, Sum (&to)[N]) {
  const Pack<From, N> pack = load<N>(static_cast<const From*>(data) + i);
  for (int k = 0; k < N; ++k) to[k] = static_cast<Sum>(widen(pack.at[k]));
}
template <int N, typename Sum>
__device__ void load_some(const SomeNumbers& of, std::int64_t i, Sum (&to)[N]) {
  switch (of.type) {
    case DType::kFp64: return load_as<N, double>(of.data, i, to);
    case DType::kFp32: return load_as<N, float>(of.data, i, to);
    case DType::kFp16: return load_as<N, __half>(of.data, i, to);
    default: return load_as<N, __nv_bfloat16>(of.data, i, to);
  }
}

template <int N, typename To, typename Sum>
__device__ void store_as(void* data, std::int64_t i, const Sum (&from)[N]) {
  Pack<To, N> pack;
  for (int k = 0; k < N; ++k)
    pack.at[k] = narrow<To>(static_cast<typename Wide<To>::Type>(from[k]));
  store<N>(static_cast<To*>(data) + i, pack);
}
template <int N, typename Sum>
__device__ void store_some(const SomeNumbers& of, std::int64_t i, const Sum (&from)[N]) {
  switch (of.type) {
    case DType::kFp64: return store_as<N, double>(of.data, i, from);
    case DType::kFp32: return store_as<N, float>(of.data, i, from);
    case DType::kFp16: return store_as<N, __half>(of.data, i, from);
    default: return store_as<N, __nv_bfloat16>(of.data, i, from);
  }
}

__device__ bool takes_place(const AdamWUpdate& update) {
  if (update.flag != nullptr) return *update.flag != 0;
  return update.guard.data == nullptr || isfinite(number_at<double>(update.guard, 0));
}

__device__ double gradient_factor(const AdamWUpdate& update) {
  if (update.norm.data == nullptr) return update.unscale;
  const double norm = sqrt(number_at<double>(update.norm, 0)) * update.unscale;
  const double clip = update.clip / (norm + update.clip_eps);
  return (clip > 1 ? 1 : clip) * update.unscale;
}

/// The update of N neighbours. As LibTorch has it, in the type in which it computes.
template <int N, typename T>
__device__ void update_pack(const AdamWState& of, const AdamWUpdate& update, const Ranges& ranges,
                            std::int64_t at, bool moves, typename Wide<T>::Type factor) {
  using Sum = typename Wide<T>::Type;
  T* weights = static_cast<T*>(of.weights) + at;
  const Pack<T, N> w = load<N>(weights);
  Sum next_w[N];
  for (int k = 0; k < N; ++k) next_w[k] = widen(w.at[k]);
  const int range = ranges.of(at);
  if (moves) {
    T *first = static_cast<T*>(of.first) + at, *second = static_cast<T*>(of.second) + at;
    Pack<T, N> m = load<N>(first), v = load<N>(second);
    Sum g[N];
    load_some<N>(of.gradient, at, g);
    const Sum beta1 = static_cast<Sum>(update.beta1), beta2 = static_cast<Sum>(update.beta2);
    const Sum rest1 = static_cast<Sum>(1 - update.beta1),
              rest2 = static_cast<Sum>(1 - update.beta2);
    const Sum step = static_cast<Sum>(update.step), root = static_cast<Sum>(update.root);
    const Sum eps = static_cast<Sum>(update.eps);
    Sum keep = static_cast<Sum>(ranges.keep[range]);
    for (int k = 0; k < N; ++k) {
      const int mine = at + k < ranges.begin[range + 1] ? range : ranges.of(at + k);
      if (mine != range) keep = static_cast<Sum>(ranges.keep[mine]);
      if (!ranges.updated[mine]) continue;
      const Sum scaled = g[k] * factor;
      const Sum next_m = beta1 * widen(m.at[k]) + rest1 * scaled;
      const Sum next_v = beta2 * widen(v.at[k]) + rest2 * scaled * scaled;
      m.at[k] = narrow<T>(next_m), v.at[k] = narrow<T>(next_v);
      next_w[k] = next_w[k] * keep - step * next_m / (sqrt(next_v) / root + eps);
    }
    store<N>(first, m), store<N>(second, v);
    store_as<N, T>(of.weights, at, next_w);
  }
  if (of.copy.data == nullptr) return;
  // The copy is of the weights as they are kept.
  for (int k = 0; k < N; ++k) next_w[k] = widen(narrow<T>(next_w[k]));
  store_some<N>(of.copy, at, next_w);
}

template <int N, typename T>
__global__ void adamw(const AdamWState of, const AdamWUpdate update, const Ranges ranges) {
  using Sum = typename Wide<T>::Type;
  __shared__ bool moves;
  __shared__ Sum factor;
  if (threadIdx.x == 0) {
    moves = takes_place(update);
    factor = static_cast<Sum>(gradient_factor(update));
  }
  __syncthreads();
  const std::int64_t begin = ranges.begin[0], end = ranges.begin[ranges.count];
  // Packs lie at multiples of N; at the ends of these ranges there may be parts of one.
  const std::int64_t first = (begin + N - 1) / N, last = end / N;
  for (std::int64_t p = first + first_thread(); p < last; p += all_threads())
    update_pack<N, T>(of, update, ranges, p * N, moves, factor);
  if (blockIdx.x != 0) return;
  const std::int64_t head = first * N < end ? first * N : end;
  for (std::int64_t i = begin + threadIdx.x; i < head; i += blockDim.x)
    update_pack<1, T>(of, update, ranges, i, moves, factor);
  const std::int64_t tail = last * N > head ? last * N : head;
  for (std::int64_t i = tail + threadIdx.x; i < end; i += blockDim.x)
    update_pack<1, T>(of, update, ranges, i, moves, factor);
}

bool lies_in_packs(const SomeNumbers& of) {
  return reinterpret_cast<std::uintptr_t>(of.data) % 32 == 0;
}

}  // namespace

cudaError_t launch_adamw(const AdamWState& of, const AdamWRange* ranges, std::int64_t num_ranges,
                         const AdamWUpdate& update, cudaStream_t stream) {
  constexpr int kAtOnce = 4;
  const bool packs = lies_in_packs({of.weights, of.type}) && lies_in_packs({of.first, of.type}) &&
                     lies_in_packs({of.second, of.type}) && lies_in_packs(of.gradient) &&
                     lies_in_packs(of.copy);
  for (std::int64_t next = 0; next + 1 < num_ranges;) {
    Ranges some;
    some.count = static_cast<int>(std::min<std::int64_t>(kMostRanges, num_ranges - 1 - next));
    for (int i = 0; i < some.count; ++i) {
      some.begin[i] = ranges[next + i].begin;
      some.keep[i] = ranges[next + i].keep;
      some.updated[i] = ranges[next + i].updated;
    }
    next += some.count;
    some.begin[some.count] = ranges[next].begin;
    const std::int64_t size = some.begin[some.count] - some.begin[0];
    if (size == 0) continue;
    const cudaError_t error = for_type(of.type, [&](auto number) {
      using T = decltype(number);
      const unsigned blocks = num_blocks(packs ? size / kAtOnce + 1 : size);
      if (packs)
        adamw<kAtOnce, T><<<blocks, kThreads, 0, stream>>>(of, update, some);
      else
        adamw<1, T><<<blocks, kThreads, 0, stream>>>(of, update, some);
      return cudaGetLastError();
    });
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace trainyard
