// Convolutions of images [N, C, H, W] with weights [O, C / groups, window].
#include "real/kernels/kernels.h"
#include "real/kernels/weight_gradient.h"
#include "real/kernels/windows.h"

namespace trainyard {

namespace {

/// Groups of channels that this rank has.
std::int64_t groups(std::int64_t image, std::int64_t weight) { return image / weight; }

/// Rows or columns of the image behind the last window that fits, which it leaves out.
std::int64_t left_over(std::int64_t image, std::int64_t windows, std::int64_t window,
                       std::int32_t stride, std::int32_t padding, std::int32_t dilation) {
  return image - ((windows - 1) * stride - 2 * padding + dilation * (window - 1) + 1);
}

}  // namespace

void conv2d(KernelCall& call) {  // reads x, w[, b]
  const OpAttrs& attrs = *call.attrs;
  const at::Tensor bias = attrs.has_bias ? call.read(2) : at::Tensor{};
  const at::Tensor& x = call.read(0);
  const at::Tensor& w = call.read(1);
  call.set(0, at::conv2d(x, w, bias, pair_of(attrs.stride), pair_of(attrs.padding),
                         pair_of(attrs.dilation), groups(x.size(1), w.size(1))));
}

void conv2d_dx(KernelCall& call) {  // reads dy, w
  const OpAttrs& attrs = *call.attrs;
  const at::Tensor& dy = call.read(0);
  const at::Tensor& w = call.read(1);
  const std::vector<std::int64_t>& image = call.write_shapes[0];
  const std::array<std::int64_t, 2> behind = {
      left_over(image[2], dy.size(2), w.size(2), attrs.stride.height, attrs.padding.height,
                attrs.dilation.height),
      left_over(image[3], dy.size(3), w.size(3), attrs.stride.width, attrs.padding.width,
                attrs.dilation.width)};
  call.set(0, at::conv_transpose2d(dy, w, {}, pair_of(attrs.stride), pair_of(attrs.padding), behind,
                                   groups(image[1], w.size(1)), pair_of(attrs.dilation)));
}

void conv2d_dw(KernelCall& call) {  // reads dy, x
  const OpAttrs& attrs = *call.attrs;
  const at::Tensor& dy = call.read(0);
  const at::Tensor& x = call.read(1);
  const bool bias = call.accumulates.size() > 1 || call.write_types.size() > 1;
  const at::Tensor gradient = weight_gradient(call, 0);
  const at::Tensor like = at::empty(gradient.sizes(), x.options());  // for its extents
  const std::array<std::int64_t, 1> channels = {dy.size(1)};
  const auto [dx, dw, db] = at::convolution_backward(
      dy, x, like, channels, pair_of(attrs.stride), pair_of(attrs.padding), pair_of(attrs.dilation),
      /*transposed=*/false, {0, 0}, groups(x.size(1), like.size(1)), {false, true, bias});
  gradient.add_(dw);
  if (bias) weight_gradient(call, 1).add_(db);
}

}  // namespace trainyard
