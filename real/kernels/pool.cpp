// Pools of images [N, C, H, W]: the largest element of each window, or its mean.
#include "real/kernels/kernels.h"
#include "real/kernels/windows.h"

namespace trainyard {

void max_pool2d(KernelCall& call) {
  const OpAttrs& attrs = *call.attrs;
  auto [y, where] = at::max_pool2d_with_indices(call.read(0), pair_of(attrs.window),
                                                pair_of(attrs.stride), pair_of(attrs.padding));
  call.set(0, std::move(y));
  call.set(1, std::move(where));
}

void max_pool2d_dx(KernelCall& call) {  // reads dy, where
  const OpAttrs& attrs = *call.attrs;
  at::Tensor dx = call.out(0);  // the operand is asked for its extents alone
  at::max_pool2d_with_indices_backward_out(dx, call.read(0), dx, pair_of(attrs.window),
                                           pair_of(attrs.stride), pair_of(attrs.padding), {1, 1},
                                           /*ceil_mode=*/false, call.read(1));
}

void avg_pool2d(KernelCall& call) {
  const OpAttrs& attrs = *call.attrs;
  at::Tensor y = call.out(0);
  at::avg_pool2d_out(y, call.read(0), pair_of(attrs.window), pair_of(attrs.stride),
                     pair_of(attrs.padding));
}

void avg_pool2d_dx(KernelCall& call) {  // reads dy
  const OpAttrs& attrs = *call.attrs;
  at::Tensor dx = call.out(0);  // the operand is asked for its extents alone
  at::avg_pool2d_backward_out(dx, call.read(0), dx, pair_of(attrs.window), pair_of(attrs.stride),
                              pair_of(attrs.padding), /*ceil_mode=*/false,
                              /*count_include_pad=*/true, std::nullopt);
}

}  // namespace trainyard
