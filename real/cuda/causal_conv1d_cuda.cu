// A causal depthwise convolution on a GPU. A thread goes along some tokens of a few channels, the
// latest of which stay in registers. Backward goes on behind its tokens as far as they are read,
// and keeps its sums for weights, which a second kernel adds up in their order.
#include "real/cuda/causal_conv1d_cuda.h"
#include "real/cuda/wide.h"

namespace trainyard {

namespace {

constexpr int kRun = 16, kRunBack = 64;  // tokens of a thread
constexpr int kMostWidth = 8;

template <typename T>
constexpr int kChannels = sizeof(T) == 8 ? 2 : 4;  // of a thread

/// W tokens of N channels; of narrower windows the first are none.
template <int W, int N, typename Sum>
struct Window {
  Sum at[W][N];
  __device__ void push(const Sum (&newest)[N]) {
    for (int k = 0; k + 1 < W; ++k) {
      for (int i = 0; i < N; ++i) at[k][i] = at[k + 1][i];
    }
    for (int i = 0; i < N; ++i) at[W - 1][i] = newest[i];
  }
};

/// A thread's channels of a sequence; 0 before its first token and behind its last.
template <int N, typename T>
struct Sequence {
  const T* first;
  std::int64_t tokens, channels;
  __device__ void read(std::int64_t token, typename Wide<T>::Type (&to)[N]) const {
    if (token < 0 || token >= tokens) {
      for (int i = 0; i < N; ++i) to[i] = 0;
      return;
    }
    const Pack<T, N> pack = load<N>(first + token * channels);
    for (int i = 0; i < N; ++i) to[i] = widen(pack.at[i]);
  }
};

/// A thread's place.
struct Place {
  std::int64_t channel, run, sequence;
  __device__ Place(std::int64_t thread, std::int64_t packs, std::int64_t runs, int n)
      : channel(thread % packs * n),
        run(thread / packs % runs),
        sequence(thread / packs / runs) {}
};

template <int W, int N, typename Sum>
__device__ void load_weights(const SomeNumbers& weight, const SomeNumbers& bias,
                             std::int64_t channel, int width, Sum (&w)[W][N], Sum (&b)[N]) {
  for (int i = 0; i < N; ++i) {
    b[i] = number_at<Sum>(bias, channel + i);
    for (int k = 0; k < W; ++k) {
      const int tap = k - (W - width);
      w[k][i] = tap < 0 ? Sum(0) : number_at<Sum>(weight, (channel + i) * width + tap);
    }
  }
}

/// What silu is taken of.
template <int W, int N, typename Sum>
__device__ Sum convolved(const Window<W, N, Sum>& x, const Sum (&w)[W][N], Sum sum, int i,
                         int width) {
  for (int k = 0; k < W; ++k) {
    if (k >= W - width) sum += x.at[k][i] * w[k][i];
  }
  return sum;
}

template <typename Sum>
__device__ Sum sigmoid(Sum x) {
  return Sum(1) / (Sum(1) + exp(-x));
}

template <int W, int N, typename T>
__global__ void __launch_bounds__(kThreads)
    causal_conv1d(const T* x, const SomeNumbers weight, const SomeNumbers bias, T* y,
                  const CausalConvShape shape) {
  using Sum = typename Wide<T>::Type;
  const std::int64_t packs = shape.channels / N, runs = (shape.tokens + kRun - 1) / kRun;
  const int width = static_cast<int>(shape.width);
  for (std::int64_t t = first_thread(); t < shape.batch * runs * packs; t += all_threads()) {
    const Place place(t, packs, runs, N);
    const std::int64_t start = place.sequence * shape.tokens * shape.channels + place.channel;
    const Sequence<N, T> from{x + start, shape.tokens, shape.channels};
    const std::int64_t begin = place.run * kRun;
    Sum w[W][N], b[N], newest[N];
    load_weights<W, N>(weight, bias, place.channel, width, w, b);
    Window<W, N, Sum> window;
    for (int k = 1; k < W; ++k) from.read(begin - W + k, window.at[k]);
#pragma unroll 4
    for (int step = 0; step < kRun; ++step) {
      const std::int64_t token = begin + step;
      if (token >= shape.tokens) break;
      from.read(token, newest);
      window.push(newest);
      Pack<T, N> out;
      for (int i = 0; i < N; ++i) {
        const Sum sum = convolved(window, w, b[i], i, width);
        out.at[i] = narrow<T>(sum / (Sum(1) + exp(-sum)));
      }
      store<N>(y + start + token * shape.channels, out);
    }
  }
}

template <int W, int N, typename T>
__global__ void __launch_bounds__(kThreads)
    causal_conv1d_b(const T* dy, const T* x, const SomeNumbers weight, const SomeNumbers bias,
                    T* dx, typename Wide<T>::Type* partial, const CausalConvShape shape) {
  using Sum = typename Wide<T>::Type;
  const std::int64_t packs = shape.channels / N, runs = (shape.tokens + kRunBack - 1) / kRunBack;
  const int width = static_cast<int>(shape.width);
  for (std::int64_t t = first_thread(); t < shape.batch * runs * packs; t += all_threads()) {
    const Place place(t, packs, runs, N);
    const std::int64_t start = place.sequence * shape.tokens * shape.channels + place.channel;
    const Sequence<N, T> of_x{x + start, shape.tokens, shape.channels},
        of_dy{dy + start, shape.tokens, shape.channels};
    const std::int64_t begin = place.run * kRunBack;
    const std::int64_t end = begin + kRunBack < shape.tokens ? begin + kRunBack : shape.tokens;
    Sum w[W][N], b[N], newest[N], g[N], dw[W][N], db[N];
    load_weights<W, N>(weight, bias, place.channel, width, w, b);
    Window<W, N, Sum> window, gradients;
    for (int k = 0; k < W; ++k) {
      for (int i = 0; i < N; ++i) gradients.at[k][i] = dw[k][i] = 0;
      if (k > 0) of_x.read(begin - W + k, window.at[k]);
    }
    for (int i = 0; i < N; ++i) db[i] = 0;
#pragma unroll 2
    for (std::int64_t token = begin; token < end + W - 1; ++token) {
      of_x.read(token, newest);
      window.push(newest);
      of_dy.read(token, g);
      for (int i = 0; i < N; ++i) {
        const Sum sum = convolved(window, w, b[i], i, width), s = sigmoid(sum);
        g[i] *= s * (Sum(1) + sum * (Sum(1) - s));
      }
      gradients.push(g);
      if (token < end) {
        for (int i = 0; i < N; ++i) {
          db[i] += g[i];
          for (int k = 0; k < W; ++k) dw[k][i] += g[i] * window.at[k][i];
        }
      }
      const std::int64_t read = token - (W - 1);  // by this token last
      if (dx == nullptr || read < begin) continue;
      Pack<T, N> out;
      for (int i = 0; i < N; ++i) {
        Sum sum = 0;
        for (int by = 0; by < W; ++by) {
          if (by < width) sum += gradients.at[by][i] * w[W - 1 - by][i];
        }
        out.at[i] = narrow<T>(sum);
      }
      store<N>(dx + start + read * shape.channels, out);
    }
    Sum* mine = partial + (place.sequence * runs + place.run) * (width + 1) * shape.channels;
    for (int k = 0; k < W; ++k) {
      const int tap = k - (W - width);
      for (int i = 0; i < N; ++i) {
        if (tap >= 0) mine[tap * shape.channels + place.channel + i] = dw[k][i];
      }
    }
    for (int i = 0; i < N; ++i) mine[width * shape.channels + place.channel + i] = db[i];
  }
}

constexpr int kPartsAtOnce = 8;

template <typename Sum>
__global__ void add_partials(const Sum* partial, std::int64_t parts, const CausalConvShape shape,
                             const SomeNumbers dw, const SomeNumbers db) {
  __shared__ Sum sums[kPartsAtOnce][kWarp];
  const std::int64_t columns = (shape.width + 1) * shape.channels,
                     column = blockIdx.x * std::int64_t{kWarp} + threadIdx.x;
  Sum sum = 0;
  if (column < columns) {
    for (std::int64_t part = threadIdx.y; part < parts; part += kPartsAtOnce)
      sum += partial[part * columns + column];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  for (int i = 1; i < kPartsAtOnce; ++i) sum += sums[i][threadIdx.x];
  const std::int64_t tap = column / shape.channels, channel = column % shape.channels;
  if (tap < shape.width)
    add_number(dw, channel * shape.width + tap, sum);
  else
    add_number(db, channel, sum);
}

/// f(W, N): constants of tokens in a window and of channels in a thread.
template <typename T, typename F>
cudaError_t for_window(const CausalConvShape& shape, bool packs, F f) {
  const auto with_channels = [&](auto w) {
    return packs ? f(w, std::integral_constant<int, kChannels<T>>{})
                 : f(w, std::integral_constant<int, 1>{});
  };
  return shape.width <= 4 ? with_channels(std::integral_constant<int, 4>{})
                          : with_channels(std::integral_constant<int, kMostWidth>{});
}

template <typename T, typename... Pointers>
bool whole_packs(const CausalConvShape& shape, const T* first, Pointers... others) {
  return shape.channels % kChannels<T> == 0 && aligned_to<kChannels<T>>(first, others...);
}

}  // namespace

bool causal_conv1d_fits(std::int64_t width) { return width <= kMostWidth; }

std::int64_t causal_conv1d_partials(const CausalConvShape& shape) {
  return shape.batch * ((shape.tokens + kRunBack - 1) / kRunBack);
}

cudaError_t launch_causal_conv1d(DType type, const void* x, const SomeNumbers& weight,
                                 const SomeNumbers& bias, void* y, const CausalConvShape& shape,
                                 cudaStream_t stream) {
  const std::int64_t runs = shape.batch * ((shape.tokens + kRun - 1) / kRun);
  if (runs * shape.channels == 0) return cudaSuccess;
  return for_type(type, [&](auto number) {
    using T = decltype(number);
    const T* from = static_cast<const T*>(x);
    T* to = static_cast<T*>(y);
    return for_window<T>(shape, whole_packs(shape, from, to), [&](auto w, auto n) {
      causal_conv1d<w(), n()><<<num_blocks(runs * shape.channels / n()), kThreads, 0, stream>>>(
          from, weight, bias, to, shape);
      return cudaGetLastError();
    });
  });
}

cudaError_t launch_causal_conv1d_b(DType type, const CausalConvGradient& of,
                                   const CausalConvShape& shape, cudaStream_t stream) {
  const std::int64_t parts = causal_conv1d_partials(shape);
  if (parts * shape.channels == 0) return cudaSuccess;
  return for_type(type, [&](auto number) {
    using T = decltype(number);
    using Sum = typename Wide<T>::Type;
    const T *dy = static_cast<const T*>(of.dy), *x = static_cast<const T*>(of.x);
    T* dx = static_cast<T*>(of.dx);
    Sum* partial = static_cast<Sum*>(of.partial);
    const cudaError_t error =
        for_window<T>(shape, whole_packs(shape, dy, x, dx), [&](auto w, auto n) {
          causal_conv1d_b<w(), n()>
              <<<num_blocks(parts * shape.channels / n()), kThreads, 0, stream>>>(
                  dy, x, of.weight, of.bias, dx, partial, shape);
          return cudaGetLastError();
        });
    if (error != cudaSuccess) return error;
    const std::int64_t columns = (shape.width + 1) * shape.channels;
    add_partials<<<static_cast<unsigned>((columns + kWarp - 1) / kWarp), dim3(kWarp, kPartsAtOnce),
                   0, stream>>>(partial, parts, shape, of.dw, of.db);
    return cudaGetLastError();
  });
}

}  // namespace trainyard
