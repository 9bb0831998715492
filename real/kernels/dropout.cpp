// Dropout by the mask of dropout_mask.h.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "engine/base/error.h"
#include "real/cuda/cuda.h"
#include "real/kernels/dropout_mask.h"
#include "real/kernels/kernels.h"

namespace trainyard {

namespace {

DropoutMask mask_of(const KernelCall& call, const at::Tensor& x) {
  DropoutMask mask;
  mask.dims = static_cast<int>(x.dim());
  check(mask.dims >= 1 && mask.dims <= DropoutMask::kMaxDims, "a dropout has 1 to 5 dims");
  const ShardPlace& place = call.write_places[0];
  for (int d = 0; d < mask.dims; ++d) {
    mask.sizes[d] = x.size(d);
    mask.start[d] = place.start[d];
    mask.whole[d] = place.whole[d];
    if (d > 0 && d + 1 < mask.dims) mask.runs_per_sample *= x.size(d);
  }
  mask.two_runs = place.two_runs;
  mask.first_run = place.first_run;
  mask.second_start = place.second_start;
  check(mask.two_runs + 1 < mask.dims, "features lie in one run");
  mask.first_sample =
      static_cast<std::uint64_t>(call.state->first_sample + place.shards_before * x.size(0));
  mask.limit = static_cast<std::uint64_t>(std::llround(double{call.attrs->rate} * 0x1p32));
  mask.scale = 1.0 / (1.0 - double{call.attrs->rate});
  mask.key = call.mask_key;
  return mask;
}

template <typename T>
void drop(const DropoutMask& mask, const at::Tensor& x, at::Tensor& y) {
  using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const T* from = x.const_data_ptr<T>();
  T* to = y.mutable_data_ptr<T>();
  const std::int64_t run = mask.run_length();
  constexpr std::int64_t kGrain = 16;
  at::parallel_for(0, mask.num_runs(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      std::uint64_t element = first_element(mask, r);
      for (std::int64_t i = 0; i < run;) {
        const PhiloxCounter words = dropout_words(mask, r, element);
        for (std::uint64_t k = element % 4; k < 4 && i < run; ++k, ++element, ++i) {
          const std::int64_t at = r * run + i;
          to[at] = words[k] < mask.limit
                       ? T(0)
                       : static_cast<T>(static_cast<Sum>(from[at]) * static_cast<Sum>(mask.scale));
        }
      }
    }
  });
}

void drop_any(KernelCall& call) {
  const at::Tensor x = call.read(0).contiguous();
  at::Tensor y = call.out(0);
  check(y.is_contiguous(), "a dropout's result is contiguous");
  const DropoutMask mask = mask_of(call, x);
  if (x.is_cuda()) return drop_on_cuda(x, y, mask);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "dropout",
                                  [&] { drop<scalar_t>(mask, x, y); });
}

}  // namespace

void dropout(KernelCall& call) { drop_any(call); }
void dropout_dx(KernelCall& call) { drop_any(call); }

}  // namespace trainyard
