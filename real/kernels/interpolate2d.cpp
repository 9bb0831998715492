// Images [N, C, H, W] at another size: element i of n lies at (i + 1/2) / n of the image, for which
// the nearest element before it stands, or the four around it do. Aligned, it lies at i / (n - 1)
// of the way between the outer elements.
#include "real/kernels/kernels.h"

namespace trainyard {

namespace {

c10::IntArrayRef size_of(const std::vector<std::int64_t>& image) {
  return c10::IntArrayRef(image).slice(2);
}

}  // namespace

void interpolate2d(KernelCall& call) {
  at::Tensor y = call.out(0);
  const c10::IntArrayRef to = size_of(call.write_shapes[0]);
  if (call.attrs->bilinear) {
    at::upsample_bilinear2d_out(y, call.read(0), to, call.attrs->aligned);
  } else {
    at::upsample_nearest2d_out(y, call.read(0), to);
  }
}

void interpolate2d_dx(KernelCall& call) {  // reads dy
  at::Tensor dx = call.out(0);
  const at::Tensor& dy = call.read(0);
  const c10::IntArrayRef from = dy.sizes().slice(2);
  if (call.attrs->bilinear) {
    at::upsample_bilinear2d_backward_out(dx, dy, from, call.write_shapes[0], call.attrs->aligned);
  } else {
    at::upsample_nearest2d_backward_out(dx, dy, from, call.write_shapes[0]);
  }
}

}  // namespace trainyard
