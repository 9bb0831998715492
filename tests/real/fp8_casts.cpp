#include "tests/real/fp8_casts.h"

#include <cstring>
#include <functional>
#include <mutex>

#include "real/exec/rank_executor.h"
#include "real/kernels/kernels.h"
#include "tests/real/loopback_run.h"

namespace trainyard {

namespace {

KernelCall call_of(const OpAttrs& attrs, std::vector<at::Tensor> reads) {
  KernelCall call;
  call.attrs = &attrs;
  call.reads = std::move(reads);
  return call;
}

void expect(KernelCall& call, at::ScalarType type, const std::vector<std::int64_t>& shape) {
  call.writes.emplace_back();
  call.write_types.push_back(type);
  call.write_shapes.push_back(shape);
}

template <typename T>
std::vector<T> numbers_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  const auto* begin = static_cast<const T*>(flat.const_data_ptr());
  return {begin, begin + flat.numel()};
}

at::Tensor number(float value) { return at::full({1}, value, at::TensorOptions(at::kFloat)); }

std::int64_t blocks(std::int64_t extent, std::int32_t block) {
  return block == 0 ? 1 : (extent + block - 1) / block;
}

}  // namespace

Fp8Cast cast_by_kernels(const std::vector<std::uint8_t>& x, std::int64_t rows, std::int64_t columns,
                        DType type, HeightWidth window, bool e8m0) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  at::Tensor in = at::empty({rows, columns}, at::TensorOptions(at::kBFloat16));
  std::memcpy(in.mutable_data_ptr(), x.data(), x.size());
  OpAttrs attrs;
  attrs.window = window;
  std::vector<at::Tensor> reads = {in};
  std::vector<std::int64_t> scales = {blocks(rows, window.height), blocks(columns, window.width)};
  if (window == HeightWidth{}) {
    scales = {1};
    KernelCall largest = call_of(attrs, {in});
    expect(largest, at::kFloat, scales);
    amax(largest);
    reads.push_back(largest.writes[0]);
  }
  KernelCall call = call_of(attrs, reads);
  expect(call, to_torch(type), {rows, columns});
  expect(call, e8m0 ? at::kFloat8_e8m0fnu : at::kFloat, scales);
  quantize(call);
  return {numbers_of<std::uint8_t>(call.writes[0].view(at::kByte)),
          numbers_of<float>(call.writes[1].to(at::kFloat))};
}

std::vector<float> delayed_scales(const std::vector<float>& amaxes, float largest) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  OpAttrs attrs;
  attrs.high = largest;
  const at::Tensor history = at::zeros({1024, 1}, at::TensorOptions(at::kFloat));
  const at::Tensor scales = number(0);
  StepState state;
  std::vector<float> out;
  for (const float largest_of_step : amaxes) {
    KernelCall call = call_of(attrs, {number(largest_of_step)});
    call.accumulates = {history, scales};
    call.state = &state;
    update_scales(call);
    out.push_back(scales.item<float>());
    ++state.step;
  }
  return out;
}

DelayedCast cast_by_history(float value, float scale, float noted) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const OpAttrs attrs;
  KernelCall cast =
      call_of(attrs, {at::full({4, 16}, value, at::TensorOptions(at::kFloat)), number(scale)});
  cast.accumulates = {number(noted)};
  expect(cast, at::kFloat8_e4m3fn, {4, 16});
  quantize(cast);
  return {cast.accumulates[0].item<float>(), cast.writes[0].to(at::kFloat).min().item<float>()};
}

namespace {

/// Scales that casts of the first step give, on all ranks: of ops that `wanted` holds of.
std::set<float> scales_of_step(
    const std::string& yaml, const std::vector<std::string>& sets,
    const std::function<bool(const Program&, const ProgramOp&)>& wanted) {
  std::set<float> out;
  std::mutex mutex;
  LoopbackOptions options{.steps = 1};
  options.ready = [&](std::int64_t, RankExecutor& executor) {
    const Program& program = executor.plan().program();
    executor.hooks().result = [&](const ProgramOp& op, Microbatch, const at::Tensor& result) {
      if (op.kind != OpKind::kQuantize || result.scalar_type() != at::kFloat) return;
      if (!wanted(program, op)) return;
      const std::lock_guard lock(mutex);
      for (std::int64_t i = 0; i < result.numel(); ++i)
        out.insert(result.view({-1})[i].item<float>());
    };
  };
  run_loopback(yaml, sets, options);
  return out;
}

}  // namespace

std::set<float> scales_of_run(const std::string& yaml, const std::vector<std::string>& sets,
                              const std::string& name) {
  return scales_of_step(yaml, sets, [&](const Program& program, const ProgramOp& op) {
    return program.values[op.reads[0].value].name.starts_with(name);
  });
}

std::set<float> shard_scales_of_run(const std::string& yaml, const std::vector<std::string>& sets) {
  return scales_of_step(yaml, sets,
                        [](const Program&, const ProgramOp& op) { return op.group != kNoIndex; });
}

}  // namespace trainyard
