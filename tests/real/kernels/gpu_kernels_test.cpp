// Kernels that a GPU has of our own give what a CPU's ops of LibTorch give in fp64, rounded to the
// type: rows of whole vectors of 16 bytes, and others. By hand, where there is a GPU.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "real/kernels/kernel.h"

namespace trainyard::gpu_kernels_test {

namespace {

struct Trial {
  OpKind kind;
  OpAttrs attrs;
  OpPart backward = OpPart::kInputGrad;
  std::vector<at::Tensor> forward_reads;
  std::vector<std::int64_t> result;  // extents
};

at::Tensor run(const Trial& trial, OpPart part, const std::vector<at::Tensor>& reads,
               const std::vector<std::int64_t>& extents, at::Device device, at::ScalarType type) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  StepState state;
  const std::vector<ShardPlace> places(3);
  KernelCall call;
  call.attrs = &trial.attrs;
  call.state = &state;
  call.device = device;
  call.immediate = device == at::kCPU;
  call.read_places = call.write_places = places.data();
  const at::ScalarType sums = type == at::kDouble ? at::kDouble : at::kFloat;
  const bool reads_sums = trial.kind == OpKind::kCrossEntropy && part != OpPart::kForward;
  for (const at::Tensor& read : reads) {
    const at::ScalarType as = reads_sums ? sums : type;
    call.reads.push_back(read.is_floating_point() ? read.to(device, as) : read.to(device));
  }
  call.writes.resize(2);
  const bool is_loss = trial.kind == OpKind::kCrossEntropy && part == OpPart::kForward;
  call.write_types = {is_loss ? sums : type, sums};
  call.write_shapes = {is_loss ? std::vector<std::int64_t>{1} : extents, extents};
  find_kernel(trial.kind, part)(call);
  return call.writes[is_loss ? 1 : 0].cpu().to(at::kDouble);
}

double largest_distance(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor finite = b.isfinite();
  REQUIRE(at::equal(a.isfinite(), finite));
  const at::Tensor apart = at::abs(a - b) / at::clamp_min(at::abs(b), 1);
  return at::max(apart.masked_fill_(finite.logical_not(), 0)).item<double>();
}

at::Tensor numbers(const std::vector<std::int64_t>& extents) {
  return at::randn(extents, at::TensorOptions(at::kDouble));
}

std::vector<Trial> trials() {
  std::vector<Trial> out;
  for (const std::int64_t width : {64, 37}) {
    for (const bool tanh_gelu : {false, true}) {
      for (const OpKind kind : {OpKind::kSwiglu, OpKind::kGeglu}) {
        OpAttrs attrs;
        attrs.tanh_gelu = tanh_gelu;
        out.push_back(
            {kind, attrs, OpPart::kInputGrad, {numbers({3, 5, 2 * width})}, {3, 5, width}});
      }
    }
  }
  for (const std::int32_t rotary : {0, 8, 6}) {
    OpAttrs attrs;
    attrs.heads = 4;
    attrs.kv_heads = 2;
    attrs.head_dim = 16;
    attrs.rotary = rotary;
    attrs.rope_base = 10000;
    out.push_back({OpKind::kRope, attrs, OpPart::kInputGrad, {numbers({2, 9, 128})}, {2, 9, 128}});
  }
  // Whole vectors; rows that begin and end between two, also those of less than one; and more than
  // stays in shared memory.
  for (const std::int64_t columns : {1000, 1003, 37, 6, 60001}) {
    OpAttrs attrs;
    attrs.vocab = static_cast<std::int32_t>(columns - 5);  // five are padding
    const at::Tensor labels = at::randint(columns - 5, {3, 7}, at::TensorOptions(at::kLong));
    labels.view({-1}).narrow(0, 2, 3).fill_(-100);
    out.push_back({OpKind::kCrossEntropy,
                   attrs,
                   OpPart::kInputGrad,
                   {numbers({3, 7, columns}).mul_(4), labels},
                   {3, 7, columns}});
  }
  return out;
}

}  // namespace

TEST_CASE("kernels of a GPU give what those of a CPU give", "[.gpu]") {
  // Half a unit of the last digit, and a little for sums in fp32 and functions of the GPU's.
  const std::vector<std::pair<at::ScalarType, double>> types{
      {at::kDouble, 1e-13}, {at::kFloat, 4e-6}, {at::kHalf, 2e-3}, {at::kBFloat16, 1.2e-2}};
  for (const auto& [type, bound] : types) {
    for (const Trial& trial : trials()) {
      CAPTURE(to_string(trial.kind), at::toString(type), trial.result, trial.attrs.rotary);
      // Both read the same numbers, as `type` holds them.
      std::vector<at::Tensor> reads = trial.forward_reads;
      reads[0] = reads[0].to(type).to(at::kDouble);
      const at::Tensor on_cpu =
          run(trial, OpPart::kForward, reads, trial.result, at::kCPU, at::kDouble);
      REQUIRE(largest_distance(run(trial, OpPart::kForward, reads, trial.result, at::kCUDA, type),
                               on_cpu) < bound);
      const bool is_loss = trial.kind == OpKind::kCrossEntropy;
      const at::Tensor dy = numbers(trial.result).to(type).to(at::kDouble);
      std::vector<at::Tensor> back{dy};
      if (trial.kind != OpKind::kRope) back.push_back(reads[0]);
      if (is_loss) back = {reads[1], on_cpu};
      const std::vector<std::int64_t> extents = reads[0].sizes().vec();
      REQUIRE(largest_distance(run(trial, trial.backward, back, extents, at::kCUDA, type),
                               run(trial, trial.backward, back, extents, at::kCPU, at::kDouble)) <
              bound);
    }
  }
}

TEST_CASE("a GPU casts to FP8 as a CPU does", "[.gpu]") {
  const auto copies = [](const at::Tensor& x, at::ScalarType type, at::Device device) {
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    OpAttrs attrs;
    KernelCall call;
    call.attrs = &attrs;
    call.device = device;
    call.reads = {x.to(device)};
    call.writes.resize(1);
    call.write_types = {at::kFloat};
    call.write_shapes = {{1}};
    find_kernel(OpKind::kAmax, OpPart::kForward)(call);
    call.reads.push_back(call.writes[0]);
    call.writes = std::vector<at::Tensor>(3);
    call.write_types = {type, type, at::kFloat};
    call.write_shapes = {x.sizes().vec(), x.sizes().vec(), {1}};
    find_kernel(OpKind::kQuantize, OpPart::kForward)(call);
    std::vector<at::Tensor> out;
    for (const at::Tensor& written : call.writes) out.push_back(written.cpu().to(at::kDouble));
    out.push_back(call.reads[1].cpu().to(at::kDouble));
    return out;
  };
  for (const at::ScalarType type : {at::kFloat8_e4m3fn, at::kFloat8_e5m2}) {
    for (const at::ScalarType of : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16}) {
      // Whole tiles of both layouts, parts of them, whole vectors that do not fill one, and none.
      for (const std::vector<std::int64_t>& extents : std::vector<std::vector<std::int64_t>>{
               {3, 50, 64}, {3, 50, 37}, {2, 128, 192}, {5, 16, 72}, {1, 1, 1}, {300, 8}}) {
        CAPTURE(at::toString(type), at::toString(of), extents);
        const at::Tensor x = numbers(extents).to(of);
        const std::vector<at::Tensor> gpu = copies(x, type, at::kCUDA),
                                      cpu = copies(x, type, at::kCPU);
        for (std::size_t i = 0; i < cpu.size(); ++i) REQUIRE(at::equal(gpu[i], cpu[i]));
      }
    }
    // Numbers in the middle between two of 8 bits and all of five bits beside them, down to half
    // the least one, with the type's largest number, so that the scale is 1.
    const bool e4m3 = type == at::kFloat8_e4m3fn;
    std::vector<float> values{e4m3 ? 448.0F : 57344.0F};
    for (int exponent = e4m3 ? -11 : -18; exponent <= (e4m3 ? 8 : 15); ++exponent) {
      for (int bits = 16; bits < 32; ++bits) {
        const float value = std::ldexp(static_cast<float>(bits) / 16, exponent);
        if (value < values[0]) values.insert(values.end(), {value, -value});
      }
    }
    const at::Tensor x = at::tensor(values);
    const at::Tensor half = x.view({1, -1});
    const std::vector<at::Tensor> gpu = copies(half, type, at::kCUDA);
    REQUIRE(gpu.back().item<double>() == values[0]);
    REQUIRE(at::equal(gpu[0], half.to(type).to(at::kDouble)));
  }
}

}  // namespace trainyard::gpu_kernels_test
