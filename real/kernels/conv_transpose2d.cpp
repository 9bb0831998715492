// Transposed convolutions of images [N, C, H, W] with weights [C, O / groups, window]: what a
// convolution with the same weight takes from [N, O, U, Z] back to the images, and the other way
// round.
#include "real/kernels/kernels.h"
#include "real/kernels/weight_gradient.h"
#include "real/kernels/windows.h"

namespace trainyard {

namespace {

/// Groups of channels that this rank has.
std::int64_t groups(const at::Tensor& result, const at::Tensor& weight) {
  return result.size(1) / weight.size(1);
}

}  // namespace

void conv_transpose2d(KernelCall& call) {  // reads x, w[, b]
  const OpAttrs& attrs = *call.attrs;
  const at::Tensor bias = attrs.has_bias ? call.read(2) : at::Tensor{};
  const at::Tensor& w = call.read(1);
  call.set(0, at::conv_transpose2d(call.read(0), w, bias, pair_of(attrs.stride),
                                   pair_of(attrs.padding), pair_of(attrs.extra),
                                   call.write_shapes[0][1] / w.size(1), pair_of(attrs.dilation)));
}

void conv_transpose2d_dx(KernelCall& call) {  // reads dy, w
  const OpAttrs& attrs = *call.attrs;
  const at::Tensor& dy = call.read(0);
  const at::Tensor& w = call.read(1);
  const at::Tensor dx = at::conv2d(dy, w, {}, pair_of(attrs.stride), pair_of(attrs.padding),
                                   pair_of(attrs.dilation), groups(dy, w));
  // More rows and columns than a stride at the end make windows that no element of x has made.
  const std::vector<std::int64_t>& image = call.write_shapes[0];
  call.set(0, dx.narrow(2, 0, image[2]).narrow(3, 0, image[3]));
}

void conv_transpose2d_dw(KernelCall& call) {  // reads dy, x
  const OpAttrs& attrs = *call.attrs;
  const at::Tensor& dy = call.read(0);
  const at::Tensor& x = call.read(1);
  const bool bias = call.accumulates.size() > 1 || call.write_types.size() > 1;
  const at::Tensor gradient = weight_gradient(call, 0);
  const at::Tensor like = at::empty(gradient.sizes(), x.options());  // for its extents
  const std::array<std::int64_t, 1> channels = {dy.size(1)};
  const auto [dx, dw, db] = at::convolution_backward(
      dy, x, like, channels, pair_of(attrs.stride), pair_of(attrs.padding), pair_of(attrs.dilation),
      /*transposed=*/true, pair_of(attrs.extra), groups(dy, like), {false, true, bias});
  gradient.add_(dw);
  if (bias) weight_gradient(call, 1).add_(db);
}

}  // namespace trainyard
