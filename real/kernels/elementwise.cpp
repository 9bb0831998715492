// Ops that compute each element by itself. swiglu and geglu read [gate up], 2F wide.
#include "real/cuda/cuda.h"
#include "real/kernels/kernels.h"

namespace trainyard {

namespace {

const char* approximation(const OpAttrs& attrs) { return attrs.tanh_gelu ? "tanh" : "none"; }

struct GateUp {
  at::Tensor gate, up;
};

GateUp halves(const at::Tensor& x) {
  const std::int64_t width = x.size(-1) / 2;
  return {x.narrow(-1, 0, width), x.narrow(-1, width, width)};
}

void set_halves(KernelCall& call, const at::Tensor& gate, const at::Tensor& up) {
  const GateUp out = halves(call.out(0));
  out.gate.copy_(gate);
  out.up.copy_(up);
}

Gate gelu_gate(const OpAttrs& attrs) { return attrs.tanh_gelu ? Gate::kTanhGelu : Gate::kGelu; }

/// By one kernel, on a GPU; else false.
bool gated_at_once(KernelCall& call, Gate gate) {
  const at::Tensor& x = call.read(0);
  if (!x.is_cuda()) return false;
  at::Tensor y = call.out(0);
  if (!contiguous_on_gpu({x, y})) return false;
  gated_on_cuda(gate, x, y);
  return true;
}

bool gated_dx_at_once(KernelCall& call, Gate gate) {
  const at::Tensor &dy = call.read(0), &x = call.read(1);
  if (!x.is_cuda()) return false;
  at::Tensor dx = call.out(0);
  if (!contiguous_on_gpu({dy, x, dx})) return false;
  gated_dx_on_cuda(gate, dy, x, dx);
  return true;
}

}  // namespace

void add(KernelCall& call) {
  if (!call.accumulates.empty()) {
    for (const at::Tensor& part : call.reads) call.accumulates[0].add_(part);
    return;
  }
  at::Tensor y = call.out(0);
  at::add_out(y, call.read(0), call.read(1));
}

void gelu(KernelCall& call) {
  at::Tensor y = call.out(0);
  at::gelu_out(y, call.read(0), approximation(*call.attrs));
}

void gelu_dx(KernelCall& call) {
  at::Tensor dx = call.out(0);
  at::gelu_backward_out(dx, call.read(0), call.read(1), approximation(*call.attrs));
}

void relu(KernelCall& call) {
  at::Tensor y = call.out(0);
  at::clamp_min_out(y, call.read(0), 0);
}

void relu_dx(KernelCall& call) {  // reads dy, y
  at::Tensor dx = call.out(0);
  at::threshold_backward_out(dx, call.read(0), call.read(1), 0);
}

void tanh(KernelCall& call) {
  at::Tensor y = call.out(0);
  at::tanh_out(y, call.read(0));
}

void tanh_dx(KernelCall& call) {  // reads dy, y
  at::Tensor dx = call.out(0);
  at::tanh_backward_out(dx, call.read(0), call.read(1));
}

void swiglu(KernelCall& call) {
  if (gated_at_once(call, Gate::kSilu)) return;
  const GateUp in = halves(call.read(0));
  call.set(0, at::silu(in.gate).mul_(in.up));
}

void swiglu_dx(KernelCall& call) {  // reads dy, [gate up]
  if (gated_dx_at_once(call, Gate::kSilu)) return;
  const GateUp in = halves(call.read(1));
  const at::Tensor& dy = call.read(0);
  set_halves(call, at::silu_backward(at::mul(dy, in.up), in.gate), at::silu(in.gate).mul_(dy));
}

void geglu(KernelCall& call) {
  if (gated_at_once(call, gelu_gate(*call.attrs))) return;
  const GateUp in = halves(call.read(0));
  call.set(0, at::gelu(in.gate, approximation(*call.attrs)).mul_(in.up));
}

void geglu_dx(KernelCall& call) {
  if (gated_dx_at_once(call, gelu_gate(*call.attrs))) return;
  const GateUp in = halves(call.read(1));
  const at::Tensor& dy = call.read(0);
  const char* how = approximation(*call.attrs);
  set_halves(call, at::gelu_backward(at::mul(dy, in.up), in.gate, how),
             at::gelu(in.gate, how).mul_(dy));
}

void zero(KernelCall& call) {
  for (std::size_t i = 0; i < call.writes.size(); ++i) call.out(i).zero_();
}

void cast(KernelCall& call) {
  at::Tensor y = call.out(0);
  y.copy_(call.read(0));
}

/// Bytes on a GPU lie by columns then, and have the strides that say so (fp8.cpp).
void transpose(KernelCall& call) {
  const at::Tensor& x = call.read(0);
  const bool bytes = x.scalar_type() == at::kFloat8_e4m3fn || x.scalar_type() == at::kFloat8_e5m2;
  if (!bytes || !contiguous_on_gpu({x}) || call.writes[0].defined() ||
      call.write_shapes[0].back() != x.size(-1))
    return cast(call);
  call.writes[0] = transposed_on_cuda(x.view({-1, x.size(-1)})).t().view(call.write_shapes[0]);
}

}  // namespace trainyard
