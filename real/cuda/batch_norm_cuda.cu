// Batch norms on a GPU: several blocks share a channel. They leave sums, of which a small kernel
// makes what is known of the channel, and a third one goes through the elements again.
#include "real/cuda/batch_norm_cuda.h"
#include "real/cuda/wide.h"

namespace trainyard {

namespace {

/// Blocks [channels, parts, groups]: each has some samples of a channel of a group.
struct Split {
  dim3 grid, block;
};

std::int64_t num_parts(const BatchNormShape& shape) {
  constexpr std::int64_t kEnoughBlocks = 2048, kLeastOfBlock = 4096, kMost = 1024;
  const std::int64_t channels = shape.channels * shape.groups;
  const std::int64_t wanted = (kEnoughBlocks + channels - 1) / channels,
                     useful = (shape.samples * shape.pixels + kLeastOfBlock - 1) / kLeastOfBlock;
  std::int64_t parts = wanted < useful ? wanted : useful;
  parts = parts < shape.samples ? parts : shape.samples;
  parts = parts < kMost ? parts : kMost;
  return parts > 1 ? parts : 1;
}

Split split_of(const BatchNormShape& shape, int n) {
  unsigned across = 1;
  while (across < kThreads && across * n < shape.pixels) across *= 2;
  return {dim3(static_cast<unsigned>(shape.channels), static_cast<unsigned>(num_parts(shape)),
               static_cast<unsigned>(shape.groups)),
          dim3(across, kThreads / across)};
}

/// f(where) for the packs of N elements of this block that this thread has.
template <int N, typename F>
__device__ void for_elements(const BatchNormShape& shape, F f) {
  const std::int64_t begin = shape.samples * blockIdx.y / gridDim.y,
                     end = shape.samples * (blockIdx.y + std::int64_t{1}) / gridDim.y;
  for (std::int64_t s = begin + threadIdx.y; s < end; s += blockDim.y) {
    const std::int64_t sample = blockIdx.z * shape.samples + s;
    const std::int64_t first = (sample * shape.channels + blockIdx.x) * shape.pixels;
    for (std::int64_t i = threadIdx.x * std::int64_t{N}; i < shape.pixels; i += blockDim.x * N)
      f(first + i);
  }
}

/// Leaves the block's two sums at scratch[group][channel][part].
template <typename Sum>
__device__ void leave_sums(Sum a, Sum b, double* scratch) {
  __shared__ Sum of_warps[2][kThreads / kWarp];
  const int thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  for (int step = kWarp / 2; step > 0; step /= 2) {
    a += __shfl_xor_sync(~0U, a, step);
    b += __shfl_xor_sync(~0U, b, step);
  }
  if (thread % kWarp == 0) of_warps[0][thread / kWarp] = a, of_warps[1][thread / kWarp] = b;
  __syncthreads();
  if (thread != 0) return;
  double sums[2] = {0, 0};
  for (int warp = 0; warp < kThreads / kWarp; ++warp) {
    sums[0] += of_warps[0][warp];
    sums[1] += of_warps[1][warp];
  }
  const std::int64_t channel = std::int64_t{blockIdx.z} * gridDim.x + blockIdx.x;
  double* to = scratch + (channel * gridDim.y + blockIdx.y) * 2;
  to[0] = sums[0], to[1] = sums[1];
}

struct Sums {
  double first = 0, second = 0;
};
__device__ Sums sums_of(const double* scratch, std::int64_t channel, std::int64_t parts) {
  Sums out;
  for (std::int64_t part = 0; part < parts; ++part) {
    out.first += scratch[(channel * parts + part) * 2];
    out.second += scratch[(channel * parts + part) * 2 + 1];
  }
  return out;
}

/// The first element of a channel: sums of distances from it lose nothing where the mean is large.
template <typename T>
__device__ typename Wide<T>::Type pivot(const T* x, const BatchNormShape& shape, std::int64_t group,
                                        std::int64_t channel) {
  return widen(x[(group * shape.samples * shape.channels + channel) * shape.pixels]);
}

template <int N, typename T>
__global__ void moments(const T* x, double* scratch, const BatchNormShape shape) {
  using Sum = typename Wide<T>::Type;
  const Sum near = pivot(x, shape, blockIdx.z, blockIdx.x);
  Sum sum = 0, squares = 0;
  for_elements<N>(shape, [&](std::int64_t at) {
    const Pack<T, N> pack = load<N>(x + at);
    for (int i = 0; i < N; ++i) {
      const Sum distance = widen(pack.at[i]) - near;
      sum += distance;
      squares += distance * distance;
    }
  });
  leave_sums(sum, squares, scratch);
}

template <typename T>
__global__ void statistics_of(const T* x, const double* scratch, std::int64_t parts,
                              typename Wide<T>::Type* statistics, const BatchNormShape shape) {
  using Sum = typename Wide<T>::Type;
  const double count = static_cast<double>(shape.samples * shape.pixels);
  const std::int64_t all = shape.groups * shape.channels;
  for (std::int64_t t = first_thread(); t < all; t += all_threads()) {
    const std::int64_t group = t / shape.channels, channel = t % shape.channels;
    const Sums sums = sums_of(scratch, t, parts);
    const double distance = sums.first / count;
    double variance = sums.second / count - distance * distance;
    if (variance < 0) variance = 0;  // by rounding, of a channel that is constant
    Sum* to = statistics + group * 2 * shape.channels + channel;
    to[0] = static_cast<Sum>(static_cast<double>(pivot(x, shape, group, channel)) + distance);
    to[shape.channels] = static_cast<Sum>(1 / sqrt(variance + shape.eps));
  }
}

template <int N, typename T>
__global__ void normalize(const T* x, const SomeNumbers weight, const SomeNumbers bias, T* y,
                          const typename Wide<T>::Type* statistics, const BatchNormShape shape) {
  using Sum = typename Wide<T>::Type;
  const Sum* known = statistics + blockIdx.z * 2 * shape.channels + blockIdx.x;
  const Sum mean = known[0];
  const Sum factor = known[shape.channels] * number_at<Sum>(weight, blockIdx.x);
  const Sum shift = number_at<Sum>(bias, blockIdx.x);
  for_elements<N>(shape, [&](std::int64_t at) {
    Pack<T, N> pack = load<N>(x + at);
    for (int i = 0; i < N; ++i) pack.at[i] = narrow<T>((widen(pack.at[i]) - mean) * factor + shift);
    store<N>(y + at, pack);
  });
}

template <int N, typename T>
__global__ void gradient_sums(const T* dy, const T* x, const typename Wide<T>::Type* statistics,
                              double* scratch, const BatchNormShape shape) {
  using Sum = typename Wide<T>::Type;
  const Sum mean = statistics[blockIdx.z * 2 * shape.channels + blockIdx.x];
  Sum sum = 0, product = 0;
  for_elements<N>(shape, [&](std::int64_t at) {
    const Pack<T, N> d = load<N>(dy + at), in = load<N>(x + at);
    for (int i = 0; i < N; ++i) {
      sum += widen(d.at[i]);
      product += widen(d.at[i]) * (widen(in.at[i]) - mean);
    }
  });
  leave_sums(sum, product, scratch);
}

/// A channel's gradients and averages, and what dx needs of each group: behind the parts' sums.
template <typename Sum>
__global__ void settle(const BatchNormGradient of, const BatchNormShape shape, std::int64_t parts) {
  const double count = static_cast<double>(shape.samples * shape.pixels);
  const Sum* statistics = static_cast<const Sum*>(of.statistics);
  double* coefficients = of.scratch + shape.groups * shape.channels * parts * 2;
  for (std::int64_t c = first_thread(); c < shape.channels; c += all_threads()) {
    double dw = 0, db = 0, means = 0, variances = 0;
    for (std::int64_t group = 0; group < shape.groups; ++group) {
      const std::int64_t channel = group * shape.channels + c;
      const double mean = statistics[group * 2 * shape.channels + c];
      const double rstd = statistics[(group * 2 + 1) * shape.channels + c];
      const Sums sums = sums_of(of.scratch, channel, parts);
      db += sums.first;
      dw += sums.second * rstd;
      coefficients[2 * channel] = sums.first / count;
      coefficients[2 * channel + 1] = sums.second * rstd * rstd / count;
      const double variance = 1 / (rstd * rstd) - shape.eps;
      means += mean;
      variances += (variance > 0 ? variance : 0) * count / (count > 1 ? count - 1 : 1);
    }
    add_number(of.dw, c, static_cast<Sum>(dw));
    add_number(of.db, c, static_cast<Sum>(db));
    if (of.mean.data == nullptr) continue;
    const double share = of.share / static_cast<double>(shape.groups);
    add_number(of.mean, c, static_cast<Sum>(share * means));
    add_number(of.variance, c, static_cast<Sum>(share * variances));
  }
}

/// dx = w r (dy - mean dy - (x - m) r^2 mean(dy (x - m))).
template <int N, typename T>
__global__ void gradient(const BatchNormGradient of, const BatchNormShape shape) {
  using Sum = typename Wide<T>::Type;
  const T *dy = static_cast<const T*>(of.dy), *x = static_cast<const T*>(of.x);
  T* dx = static_cast<T*>(of.dx);
  const Sum* known =
      static_cast<const Sum*>(of.statistics) + blockIdx.z * 2 * shape.channels + blockIdx.x;
  const Sum mean = known[0];
  const Sum factor = known[shape.channels] * number_at<Sum>(of.weight, blockIdx.x);
  const double* coefficients = of.scratch +
                               shape.groups * shape.channels * std::int64_t{gridDim.y} * 2 +
                               2 * (blockIdx.z * shape.channels + blockIdx.x);
  const Sum mean_dy = static_cast<Sum>(coefficients[0]), slope = static_cast<Sum>(coefficients[1]);
  for_elements<N>(shape, [&](std::int64_t at) {
    const Pack<T, N> in = load<N>(x + at);
    Pack<T, N> d = load<N>(dy + at);
    for (int i = 0; i < N; ++i) {
      const Sum from_mean = widen(in.at[i]) - mean;
      d.at[i] = narrow<T>((widen(d.at[i]) - mean_dy - from_mean * slope) * factor);
    }
    store<N>(dx + at, d);
  });
}

bool is_empty(const BatchNormShape& shape) {
  return shape.groups * shape.samples * shape.channels * shape.pixels == 0;
}

/// launch(N): whole vectors of pixels, half ones, or elements.
template <typename T, typename Launch, typename... Pointers>
cudaError_t for_packs(std::int64_t pixels, const Launch& launch, const T* first,
                      Pointers... others) {
  constexpr int kHalf = kVector < T >> 1 ? kVector<T> / 2 : 1;
  if (pixels % kVector<T> == 0 && aligned_to<kVector<T>>(first, others...)) {
    launch(std::integral_constant<int, kVector<T>>{});
  } else if (pixels % kHalf == 0 && aligned_to<kHalf>(first, others...)) {
    launch(std::integral_constant<int, kHalf>{});
  } else {
    launch(std::integral_constant<int, 1>{});
  }
  return cudaGetLastError();
}

}  // namespace

std::int64_t batch_norm_scratch(const BatchNormShape& shape) {
  return is_empty(shape) ? 0 : shape.groups * shape.channels * (num_parts(shape) + 1) * 2;
}

cudaError_t launch_batch_norm(DType type, const void* x, const SomeNumbers& weight,
                              const SomeNumbers& bias, void* y, void* statistics, double* scratch,
                              const BatchNormShape& shape, cudaStream_t stream) {
  if (is_empty(shape)) return cudaSuccess;
  return for_type(type, [&](auto number) {
    using T = decltype(number);
    const T* from = static_cast<const T*>(x);
    T* to = static_cast<T*>(y);
    auto* known = static_cast<typename Wide<T>::Type*>(statistics);
    return for_packs<T>(
        shape.pixels,
        [&](auto n) {
          const Split split = split_of(shape, n());
          moments<n()><<<split.grid, split.block, 0, stream>>>(from, scratch, shape);
          statistics_of<<<num_blocks(shape.groups * shape.channels), kThreads, 0, stream>>>(
              from, scratch, num_parts(shape), known, shape);
          normalize<n()>
              <<<split.grid, split.block, 0, stream>>>(from, weight, bias, to, known, shape);
        },
        from, to);
  });
}

cudaError_t launch_batch_norm_b(DType type, const BatchNormGradient& of,
                                const BatchNormShape& shape, cudaStream_t stream) {
  if (is_empty(shape)) return cudaSuccess;
  return for_type(type, [&](auto number) {
    using T = decltype(number);
    using Sum = typename Wide<T>::Type;
    const T *dy = static_cast<const T*>(of.dy), *x = static_cast<const T*>(of.x);
    return for_packs<T>(
        shape.pixels,
        [&](auto n) {
          const Split split = split_of(shape, n());
          gradient_sums<n()><<<split.grid, split.block, 0, stream>>>(
              dy, x, static_cast<const Sum*>(of.statistics), of.scratch, shape);
          settle<Sum>
              <<<num_blocks(shape.channels), kThreads, 0, stream>>>(of, shape, num_parts(shape));
          if (of.dx != nullptr) gradient<n(), T><<<split.grid, split.block, 0, stream>>>(of, shape);
        },
        dy, x, of.dx);
  });
}

}  // namespace trainyard
