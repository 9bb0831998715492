// A scan's numbers on a GPU: of tokens and of states. Pairs of tokens are in scan_pairs_cuda.cu.
#include "real/cuda/scan_cuda.h"
#include "real/cuda/scan_numbers.h"

namespace trainyard {

namespace {

/// dt with its bias and softplus, as LibTorch's.
template <typename Sum>
__device__ Sum softplus(Sum x) {
  return x > Sum(20) ? x : log1p(exp(x));
}

/// A warp takes a head of a cell.
template <typename T>
__global__ void scan_steps(const T* raw, const typename Wide<T>::Type* bias,
                           const typename Wide<T>::Type* a, typename Wide<T>::Type* dt,
                           double* past, const ScanShape shape) {
  using Sum = typename Wide<T>::Type;
  const std::int64_t heads = shape.all_heads(), tokens = shape.tokens;
  for (std::int64_t at = first_warp(); at < shape.cells * heads; at += all_warps()) {
    const std::int64_t cell = at / heads, head = at % heads;
    double before = 0;
    for (std::int64_t first = 0; first < tokens; first += kWarp) {
      const std::int64_t token = first + lane_of_warp();
      const bool here = token < tokens;
      const Sum mine =
          here ? softplus(widen(raw[(cell * tokens + token) * heads + head]) + bias[head]) : Sum(0);
      const double sum = before + running_sum<false>(static_cast<double>(mine * a[head]));
      if (here) dt[at * tokens + token] = mine, past[at * tokens + token] = sum;
      before = __shfl_sync(~0U, sum, kWarp - 1);
    }
  }
}

/// Where an element of [M, Q, G, R, P] is elsewhere.
struct Element {
  std::int64_t cell, token, group, head, channel;  // head: of the group
  const ScanShape& shape;
  __device__ Element(std::int64_t at, const ScanShape& of) : shape(of) {
    channel = at % of.channels, at /= of.channels;
    head = at % of.heads, at /= of.heads;
    group = at % of.groups, at /= of.groups;
    token = at % of.tokens, cell = at / of.tokens;
  }
  __device__ std::int64_t of_all() const { return group * shape.heads + head; }
  __device__ std::int64_t head_of_cell() const { return cell * shape.all_heads() + of_all(); }
  __device__ std::int64_t of_tokens() const { return head_of_cell() * shape.tokens + token; }
  __device__ std::int64_t last_token() const { return (head_of_cell() + 1) * shape.tokens - 1; }
  __device__ std::int64_t by_head() const { return of_tokens() * shape.channels + channel; }
  __device__ std::int64_t by_group() const {
    return (((cell * shape.groups + group) * shape.tokens + token) * shape.heads + head) *
               shape.channels +
           channel;
  }
};

template <typename Sum>
__device__ Sum left_of(double steps) {
  return exp(static_cast<Sum>(steps));
}

constexpr std::int64_t num_elements(const ScanShape& shape) {
  return shape.cells * shape.tokens * shape.all_heads() * shape.channels;
}

template <int N, typename T>
__global__ void scan_factors(const T* of, const typename Wide<T>::Type* dt, const double* past,
                             typename Work<T>::Type* by_head, typename Work<T>::Type* by_group,
                             const ScanShape shape) {
  using Sum = typename Wide<T>::Type;
  using W = typename Work<T>::Type;
  const std::int64_t packs = num_elements(shape) / N;
  for (std::int64_t t = first_thread(); t < packs; t += all_threads()) {
    const Element at(t * N, shape);
    const Pack<T, N> pack = load<N>(of + t * N);
    const Sum scale = dt != nullptr ? dt[at.of_tokens()] : Sum(1);
    const double since = past[at.of_tokens()];
    const Sum left = left_of<Sum>(dt != nullptr ? past[at.last_token()] - since : since);
    Pack<W, N> whole, part;
    for (int i = 0; i < N; ++i) {
      const Sum x = widen(pack.at[i]) * scale;
      whole.at[i] = narrow<W>(x), part.at[i] = narrow<W>(x * left);
    }
    if (by_head != nullptr) store<N>(by_head + at.by_head(), whole);
    store<N>(by_group + at.by_group(), part);
  }
}

/// A thread takes an element of the state of a sequence through its chunks.
template <bool kBack, typename T>
__global__ void scan_states(const typename Wide<T>::Type* added, const double* past,
                            typename Work<T>::Type* states, const ScanShape shape) {
  using Sum = typename Wide<T>::Type;
  const std::int64_t elements = shape.all_heads() * shape.channels * shape.states,
                     sequences = shape.cells / shape.chunks;
  for (std::int64_t t = first_thread(); t < sequences * elements; t += all_threads()) {
    const std::int64_t element = t % elements, first = t / elements * shape.chunks;
    const std::int64_t row = element / shape.channels,
                       head = row / shape.heads / shape.states * shape.heads + row % shape.heads;
    Sum state = 0;
    for (std::int64_t i = 0; i < shape.chunks; ++i) {
      const std::int64_t cell = first + (kBack ? shape.chunks - 1 - i : i);
      states[cell * elements + element] = narrow<typename Work<T>::Type>(state);
      const Sum over = left_of<Sum>(past[(cell * shape.all_heads() + head + 1) * shape.tokens - 1]);
      state = state * over + added[cell * elements + element];
    }
  }
}

template <int N, typename T>
__global__ void scan_y(const typename Wide<T>::Type* of_states,
                       const typename Wide<T>::Type* within, const T* x,
                       const typename Wide<T>::Type* d, const double* past, T* y,
                       const ScanShape shape) {
  using Sum = typename Wide<T>::Type;
  const std::int64_t packs = num_elements(shape) / N;
  for (std::int64_t t = first_thread(); t < packs; t += all_threads()) {
    const Element at(t * N, shape);
    const Sum since = left_of<Sum>(past[at.of_tokens()]), skip = d[at.of_all()];
    const Pack<Sum, N> states = load<N>(of_states + at.by_group());
    const Pack<Sum, N> chunk = load<N>(within + at.by_head());
    const Pack<T, N> in = load<N>(x + t * N);
    Pack<T, N> out;
    for (int i = 0; i < N; ++i)
      out.at[i] = narrow<T>(states.at[i] * since + chunk.at[i] + skip * widen(in.at[i]));
    store<N>(y + t * N, out);
  }
}

/// A warp takes a token of a head: dx, and sums over channels, [4, M, N, Q]: of dt alone, of what
/// is read of the state before, of what is left to that behind, of d.
template <typename T>
__global__ void scan_tokens_b(const ScanGradient of, const ScanShape shape) {
  using Sum = typename Wide<T>::Type;
  const T *dy = static_cast<const T*>(of.dy), *x = static_cast<const T*>(of.x);
  const Sum *of_states = static_cast<const Sum*>(of.of_states),
            *moved = static_cast<const Sum*>(of.moved), *left = static_cast<const Sum*>(of.left);
  Sum* sums = static_cast<Sum*>(of.scratch);
  T* dx = static_cast<T*>(of.dx);
  const std::int64_t tokens = shape.cells * shape.all_heads() * shape.tokens;
  for (std::int64_t t = first_warp(); t < tokens; t += all_warps()) {
    const Element at(t * shape.channels, shape);
    const std::int64_t mine = at.of_tokens();
    const Sum dt = static_cast<const Sum*>(of.dt)[mine],
              skip = static_cast<const Sum*>(of.d)[at.of_all()];
    const Sum since = left_of<Sum>(of.past[mine]),
              rest = left_of<Sum>(of.past[at.last_token()] - of.past[mine]);
    Sum of_dt = 0, of_read = 0, of_left = 0, of_d = 0;
    for (std::int64_t p = lane_of_warp(); p < shape.channels; p += kWarp) {
      const Sum in = widen(x[t * shape.channels + p]), g = widen(dy[t * shape.channels + p]);
      const Sum behind = left[at.by_group() + p] * rest;
      const Sum gradient = moved[at.by_head() + p] + behind;  // of x dt
      dx[t * shape.channels + p] = narrow<T>(gradient * dt + g * skip);
      of_dt += gradient * in;
      of_read += g * since * of_states[at.by_group() + p];
      of_left += in * dt * behind;
      of_d += g * in;
    }
    of_dt = sum_of_warp(of_dt), of_read = sum_of_warp(of_read);
    of_left = sum_of_warp(of_left), of_d = sum_of_warp(of_d);
    if (lane_of_warp() != 0) continue;
    sums[mine] = of_dt, sums[tokens + mine] = of_read;
    sums[2 * tokens + mine] = of_left, sums[3 * tokens + mine] = of_d;
  }
}

/// What the state passes by: a warp's sum of the state before the chunk times its gradient behind
/// it, as far as that is left.
template <typename T>
__device__ typename Wide<T>::Type passed_by(const ScanGradient& of, const ScanShape& shape,
                                            std::int64_t cell, std::int64_t head) {
  using Sum = typename Wide<T>::Type;
  using W = typename Work<T>::Type;
  const W *before = static_cast<const W*>(of.before), *behind = static_cast<const W*>(of.behind);
  const std::int64_t first = (cell * shape.groups + head / shape.heads) * shape.states;
  Sum sum = 0;
  for (std::int64_t i = lane_of_warp(); i < shape.states * shape.channels; i += kWarp) {
    const std::int64_t state = first + i / shape.channels;
    const std::int64_t at =
        (state * shape.heads + head % shape.heads) * shape.channels + i % shape.channels;
    sum += widen(before[at]) * widen(behind[at]);
  }
  const std::int64_t behind_all = (cell * shape.all_heads() + head + 1) * shape.tokens - 1;
  return sum_of_warp(sum) * left_of<Sum>(of.past[behind_all]);
}

/// A warp takes a head of a cell: its dt A have what comes of pairs, what tokens from each on read
/// of the state before, what those before each leave, and what the state passes by.
template <typename T>
__global__ void scan_heads_b(const ScanGradient of, const ScanShape shape) {
  using Sum = typename Wide<T>::Type;
  const std::int64_t heads = shape.all_heads(), tokens = shape.tokens, all = shape.cells * heads;
  const Sum *bias = static_cast<const Sum*>(of.bias), *a = static_cast<const Sum*>(of.a),
            *dt = static_cast<const Sum*>(of.dt), *steps = static_cast<const Sum*>(of.steps);
  Sum* sums = static_cast<Sum*>(of.scratch);
  const std::int64_t rounds = (tokens + kWarp - 1) / kWarp;
  for (std::int64_t mine = first_warp(); mine < all; mine += all_warps()) {
    const std::int64_t cell = mine / heads, head = mine % heads;
    Sum* of_left = sums + (2 * all + mine) * tokens;
    Sum before = passed_by<T>(of, shape, cell, head);
    for (std::int64_t round = 0; round < rounds; ++round) {
      const std::int64_t token = round * kWarp + lane_of_warp();
      const Sum here = token < tokens ? of_left[token] : Sum(0);
      const Sum up_to = running_sum<false>(here), one_less = __shfl_up_sync(~0U, up_to, 1);
      if (token < tokens) of_left[token] = before + (lane_of_warp() > 0 ? one_less : Sum(0));
      before += __shfl_sync(~0U, up_to, kWarp - 1);
    }
    Sum behind = 0, of_a = 0, of_bias = 0, of_d = 0;
    for (std::int64_t round = rounds; round-- > 0;) {
      const std::int64_t token = round * kWarp + lane_of_warp(), i = mine * tokens + token;
      const bool is_token = token < tokens;
      const Sum from = running_sum<true>(is_token ? sums[all * tokens + i] : Sum(0)) + behind;
      behind = __shfl_sync(~0U, from, 0);
      if (!is_token) continue;
      const Sum step = steps[i] + of_left[token] + from;
      const std::int64_t at = (cell * tokens + token) * heads + head;
      const Sum raw = widen(static_cast<const T*>(of.raw)[at]) + bias[head];
      const Sum gradient = (sums[i] + step * a[head]) / (Sum(1) + exp(-raw));
      static_cast<T*>(of.ddt)[at] = narrow<T>(gradient);
      of_a += step * dt[i], of_bias += gradient, of_d += sums[3 * all * tokens + i];
    }
    of_a = sum_of_warp(of_a), of_bias = sum_of_warp(of_bias), of_d = sum_of_warp(of_d);
    if (lane_of_warp() != 0) continue;
    Sum* to = static_cast<Sum*>(of.of_heads);
    to[mine] = of_a, to[all + mine] = of_bias, to[2 * all + mine] = of_d;
  }
}

unsigned blocks_of_warps(std::int64_t warps) { return num_blocks(warps * kWarp); }

/// f(N): a constant of neighbouring channels that a thread takes; x and y may be parts of pools.
template <typename T, typename F>
cudaError_t for_channels(const ScanShape& shape, const void* x, const void* y, F f) {
  const bool packs = shape.channels % 4 == 0 && aligned_to<4>(static_cast<const T*>(x), y);
  return packs ? f(std::integral_constant<int, 4>{}) : f(std::integral_constant<int, 1>{});
}

}  // namespace

cudaError_t launch_scan_steps(DType type, const ScanSteps& of, const ScanShape& shape,
                              cudaStream_t stream) {
  return for_type(type, [&](auto number) {
    using T = decltype(number);
    using Sum = typename Wide<T>::Type;
    scan_steps<<<blocks_of_warps(shape.cells * shape.all_heads()), kThreads, 0, stream>>>(
        static_cast<const T*>(of.raw), static_cast<const Sum*>(of.bias),
        static_cast<const Sum*>(of.a), static_cast<Sum*>(of.dt), of.past, shape);
    return cudaGetLastError();
  });
}

cudaError_t launch_scan_factors(DType type, const ScanFactors& of, const ScanShape& shape,
                                cudaStream_t stream) {
  return for_type(type, [&](auto number) {
    using T = decltype(number);
    using W = typename Work<T>::Type;
    return for_channels<T>(shape, of.of, nullptr, [&](auto n) {
      scan_factors<n()><<<num_blocks(num_elements(shape) / n()), kThreads, 0, stream>>>(
          static_cast<const T*>(of.of), static_cast<const typename Wide<T>::Type*>(of.dt), of.past,
          static_cast<W*>(of.by_head), static_cast<W*>(of.by_group), shape);
      return cudaGetLastError();
    });
  });
}

cudaError_t launch_scan_states(DType type, const void* added, const double* past, bool back,
                               void* states, const ScanShape& shape, cudaStream_t stream) {
  return for_type(type, [&](auto number) {
    using T = decltype(number);
    const auto launch = [&](auto is_back) {
      const std::int64_t threads =
          shape.cells / shape.chunks * shape.all_heads() * shape.channels * shape.states;
      scan_states<is_back(), T><<<num_blocks(threads), kThreads, 0, stream>>>(
          static_cast<const typename Wide<T>::Type*>(added), past,
          static_cast<typename Work<T>::Type*>(states), shape);
      return cudaGetLastError();
    };
    return back ? launch(std::true_type{}) : launch(std::false_type{});
  });
}

cudaError_t launch_scan_y(DType type, const ScanResult& of, const ScanShape& shape,
                          cudaStream_t stream) {
  return for_type(type, [&](auto number) {
    using T = decltype(number);
    using Sum = typename Wide<T>::Type;
    return for_channels<T>(shape, of.x, of.y, [&](auto n) {
      scan_y<n()><<<num_blocks(num_elements(shape) / n()), kThreads, 0, stream>>>(
          static_cast<const Sum*>(of.of_states), static_cast<const Sum*>(of.within),
          static_cast<const T*>(of.x), static_cast<const Sum*>(of.d), of.past,
          static_cast<T*>(of.y), shape);
      return cudaGetLastError();
    });
  });
}

cudaError_t launch_scan_gradient(DType type, const ScanGradient& of, const ScanShape& shape,
                                 cudaStream_t stream) {
  return for_type(type, [&](auto number) {
    using T = decltype(number);
    const std::int64_t warps = shape.cells * shape.all_heads();
    scan_tokens_b<T><<<blocks_of_warps(warps * shape.tokens), kThreads, 0, stream>>>(of, shape);
    if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return error;
    scan_heads_b<T><<<blocks_of_warps(warps), kThreads, 0, stream>>>(of, shape);
    return cudaGetLastError();
  });
}

}  // namespace trainyard
