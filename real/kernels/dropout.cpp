// Dropout whose mask is a pure function of seed, step, op, global sample and element index, so that
// every layout draws the same mask, recompute replays it, and nothing is saved.
#include <cmath>
#include <type_traits>

#include "engine/base/error.h"
#include "real/kernels/kernels.h"

namespace trainyard {

namespace {

/// y = x / (1 - rate) where the element is kept, else 0. Dim 0 counts samples.
template <typename T>
void drop(const KernelCall& call, const at::Tensor& x, at::Tensor& y) {
  const ShardPlace& place = call.write_places[0];
  const double rate = call.attrs->rate;
  // An element is dropped when its word is below this.
  const auto limit = static_cast<std::uint64_t>(std::llround(rate * 0x1p32));
  const double scale = 1.0 / (1.0 - rate);
  const auto sizes = x.sizes();
  const std::int64_t dims = x.dim();
  const std::int64_t run = sizes[static_cast<std::size_t>(dims - 1)];
  std::int64_t runs_per_sample = 1;
  for (std::int64_t d = 1; d + 1 < dims; ++d) runs_per_sample *= sizes[static_cast<std::size_t>(d)];
  using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const T* from = x.const_data_ptr<T>();
  T* to = y.mutable_data_ptr<T>();
  const std::uint64_t first_sample = static_cast<std::uint64_t>(call.state->first_sample);
  constexpr std::int64_t kGrain = 16;
  at::parallel_for(0, sizes[0] * runs_per_sample, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      // Index of the run's first element in the whole sample.
      std::int64_t rest = r % runs_per_sample;
      std::int64_t first = dims > 1 ? place.start[static_cast<std::size_t>(dims - 1)] : 0;
      std::int64_t stride = dims > 1 ? place.whole[static_cast<std::size_t>(dims - 1)] : 1;
      for (std::int64_t d = dims - 2; d >= 1; --d) {
        const auto k = static_cast<std::size_t>(d);
        first += (place.start[k] + rest % sizes[k]) * stride;
        rest /= sizes[k];
        stride *= place.whole[k];
      }
      const std::uint64_t sample = first_sample + static_cast<std::uint64_t>(r / runs_per_sample);
      auto element = static_cast<std::uint64_t>(first);
      for (std::int64_t i = 0; i < run;) {
        // 2^34 elements of a sample, 2^64 samples of a run: a sample is of one step.
        const PhiloxCounter words = philox({static_cast<std::uint32_t>(element / 4),
                                            static_cast<std::uint32_t>(element >> 34),
                                            static_cast<std::uint32_t>(sample),
                                            static_cast<std::uint32_t>(sample >> 32)},
                                           call.mask_key);
        for (std::uint64_t k = element % 4; k < 4 && i < run; ++k, ++element, ++i) {
          const std::int64_t at = r * run + i;
          to[at] = words[k] < limit ? T(0) : static_cast<T>(static_cast<Sum>(from[at]) * static_cast<Sum>(scale));
        }
      }
    }
  });
}

void drop_any(KernelCall& call) {
  const at::Tensor x = call.read(0).contiguous();
  at::Tensor y = call.out(0);
  check(x.device().is_cpu() && y.is_contiguous(), "dropout's kernel is the CPU's");
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "dropout",
                                  [&] { drop<scalar_t>(call, x, y); });
}

}  // namespace

void dropout(KernelCall& call) { drop_any(call); }
void dropout_dx(KernelCall& call) { drop_any(call); }

}  // namespace trainyard
