// Gated activations on a GPU: [gate up] is read once, and the result written once.
#include "real/cuda/gated_cuda.h"
#include "real/cuda/wide.h"

namespace trainyard {

namespace {

template <typename Sum>
struct Activated {
  Sum value, slope;
};

template <Gate G, typename Sum>
__device__ Activated<Sum> activate(Sum x) {
  if constexpr (G == Gate::kSilu) {
    const Sum sigmoid = Sum(1) / (Sum(1) + exp(-x));
    return {x * sigmoid, sigmoid * (Sum(1) + x * (Sum(1) - sigmoid))};
  } else if constexpr (G == Gate::kGelu) {
    const Sum below = Sum(0.5) * (Sum(1) + erf(x * Sum(0.70710678118654752440)));
    const Sum density = Sum(0.39894228040143267794) * exp(Sum(-0.5) * x * x);
    return {x * below, below + x * density};
  } else {
    constexpr Sum kScale = Sum(0.79788456080286535588), kCubic = Sum(0.044715);
    const Sum t = tanh(kScale * (x + kCubic * x * x * x));
    const Sum inner = kScale * (Sum(1) + Sum(3) * kCubic * x * x);
    return {Sum(0.5) * x * (Sum(1) + t),
            Sum(0.5) * (Sum(1) + t) + Sum(0.5) * x * (Sum(1) - t * t) * inner};
  }
}

template <Gate G, int N, typename T>
__global__ void gated(const T* x, T* y, std::int64_t rows, std::int64_t width) {
  const std::int64_t packs = width / N;
  for (std::int64_t t = first_thread(); t < rows * packs; t += all_threads()) {
    const std::int64_t row = t / packs, column = t % packs * N;
    const Pack<T, N> gate = load<N>(x + row * 2 * width + column);
    const Pack<T, N> up = load<N>(x + row * 2 * width + width + column);
    Pack<T, N> out;
    for (int i = 0; i < N; ++i)
      out.at[i] = narrow<T>(activate<G>(widen(gate.at[i])).value * widen(up.at[i]));
    store<N>(y + row * width + column, out);
  }
}

template <Gate G, int N, typename T>
__global__ void gated_dx(const T* dy, const T* x, T* dx, std::int64_t rows, std::int64_t width) {
  const std::int64_t packs = width / N;
  for (std::int64_t t = first_thread(); t < rows * packs; t += all_threads()) {
    const std::int64_t row = t / packs, column = t % packs * N, at = row * 2 * width + column;
    const Pack<T, N> gate = load<N>(x + at), up = load<N>(x + at + width);
    const Pack<T, N> gradient = load<N>(dy + row * width + column);
    Pack<T, N> of_gate, of_up;
    for (int i = 0; i < N; ++i) {
      const auto activated = activate<G>(widen(gate.at[i]));
      const auto g = widen(gradient.at[i]);
      of_gate.at[i] = narrow<T>(g * widen(up.at[i]) * activated.slope);
      of_up.at[i] = narrow<T>(g * activated.value);
    }
    store<N>(dx + at, of_gate);
    store<N>(dx + at + width, of_up);
  }
}

/// f(gate, count): constants of the gate and of how many elements a thread takes at once.
template <typename T, typename F>
cudaError_t for_gate(Gate gate, std::int64_t width, F f) {
  const auto with_count = [&](auto g) {
    return whole_vectors<T>(width) ? f(g, std::integral_constant<int, kVector<T>>{})
                                   : f(g, std::integral_constant<int, 1>{});
  };
  switch (gate) {
    case Gate::kSilu: return with_count(std::integral_constant<Gate, Gate::kSilu>{});
    case Gate::kGelu: return with_count(std::integral_constant<Gate, Gate::kGelu>{});
    case Gate::kTanhGelu: return with_count(std::integral_constant<Gate, Gate::kTanhGelu>{});
  }
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t launch_gated(DType type, Gate gate, const void* x, void* y, std::int64_t rows,
                         std::int64_t width, cudaStream_t stream) {
  if (rows * width == 0) return cudaSuccess;
  return for_type(type, [&](auto number) {
    using T = decltype(number);
    return for_gate<T>(gate, width, [&](auto g, auto count) {
      gated<g(), count()><<<num_blocks(rows * width / count()), kThreads, 0, stream>>>(
          static_cast<const T*>(x), static_cast<T*>(y), rows, width);
      return cudaGetLastError();
    });
  });
}

cudaError_t launch_gated_dx(DType type, Gate gate, const void* dy, const void* x, void* dx,
                            std::int64_t rows, std::int64_t width, cudaStream_t stream) {
  if (rows * width == 0) return cudaSuccess;
  return for_type(type, [&](auto number) {
    using T = decltype(number);
    return for_gate<T>(gate, width, [&](auto g, auto count) {
      gated_dx<g(), count()><<<num_blocks(rows * width / count()), kThreads, 0, stream>>>(
          static_cast<const T*>(dy), static_cast<const T*>(x), static_cast<T*>(dx), rows, width);
      return cudaGetLastError();
    });
  });
}

}  // namespace trainyard
