// Group norm of images [N, C, H, W]: of each sample the channels in groups, one behind the other.
// Statistics [N, 2, groups], in accumulation type, are mean and 1 / deviation; a rank that has some
// of the channels has whole groups.
#include "real/kernels/kernels.h"

namespace trainyard {

namespace {

/// x as LibTorch keeps wide statistics of it: on a CPU it does where the weights are wide, on a GPU
/// only where all is.
at::Tensor wide_on_gpu(const at::Tensor& x, at::ScalarType statistics) {
  return x.is_cpu() ? x : x.to(statistics);
}

}  // namespace

void group_norm(KernelCall& call) {  // reads x, w, b
  const at::ScalarType type = call.write_types[1];
  const at::Tensor x = wide_on_gpu(call.read(0), type);
  const std::int64_t groups = call.write_shapes[1][2];
  const auto [y, mean, rstd] =
      at::native_group_norm(x, call.read(1).to(type), call.read(2).to(type), x.size(0), x.size(1),
                            x.size(2) * x.size(3), groups, call.attrs->eps);
  call.set(0, y.to(call.write_types[0]));
  at::Tensor statistics = call.out(1);
  statistics.select(1, 0).copy_(mean);
  statistics.select(1, 1).copy_(rstd);
}

void group_norm_b(KernelCall& call) {  // reads dy, x, w, statistics
  const at::Tensor& statistics = call.read(3);
  const at::ScalarType type = statistics.scalar_type();
  const at::Tensor dy = wide_on_gpu(call.read(0), type), x = wide_on_gpu(call.read(1), type);
  const bool wants_dx = !call.writes.empty();
  const auto [dx, dw, db] = at::native_group_norm_backward(
      dy, x, statistics.select(1, 0).contiguous(), statistics.select(1, 1).contiguous(),
      call.read(2).to(type), x.size(0), x.size(1), x.size(2) * x.size(3), statistics.size(2),
      {wants_dx, true, true});
  if (wants_dx) call.set(0, dx.to(call.write_types[0]));
  call.accumulates[0].add_(dw);
  call.accumulates[1].add_(db);
}

}  // namespace trainyard
