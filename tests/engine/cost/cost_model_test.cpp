// Kernels in closed form: every expected time is derived beside it from round numbers, and agrees
// to 1e-9.
#include "engine/cost/cost_model.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "engine/graph/count_work.h"

namespace trainyard::cost_model_test {

namespace {

bool close(double value, double expected) {
  return std::abs(value - expected) <= 1e-9 * std::abs(expected);
}

HardwareProfile round_device() {
  HardwareProfile device;
  device.name = "round";
  device.peak = {{DType::kFp32, 10e12}, {DType::kFp16, 100e12}};
  device.memory_bandwidth = 1e12;
  device.memory_bound["default"] = {4e-6, 1e-6, 0.5, {"fitted", "default"}};
  device.memory_bound["add"] = {4e-6, 0, 1, {"measured", "add"}};
  return device;
}

Seconds kernel(const KernelWork& work, const HardwareProfile& device, double speed = 1,
               const SoftwareProfile& software = {}) {
  SourceLog log;
  return kernel_time(work, device, software, speed, log);
}

KernelWork work_of(KernelClass cls, OpKind kind, Flop flop, Bytes bytes) {
  KernelWork work;
  work.cls = cls;
  work.kind = kind;
  work.dtype = DType::kFp16;
  work.flop = flop;
  work.bytes = bytes;
  return work;
}

constexpr Bytes kMB = 1'000'000;

}  // namespace

TEST_CASE("a product takes startup, FLOP and bytes") {
  HardwareProfile device = round_device();
  device.matmul = {5e-6, 0.8, 2, 1, {}};
  const KernelWork work = work_of(KernelClass::kMatmul, OpKind::kLinear, 8e9, 20 * kMB);
  // 5 us + 8e9 / 80e12 + 20 MB / 2 TB/s = 5 + 100 + 10 us.
  CHECK(close(kernel(work, device), 115e-6));
  // Half the compute rate leaves the memory as it is: 5 + 200 + 10 us.
  CHECK(close(kernel(work, device, 0.5), 215e-6));

  KernelWork gradient = work;
  gradient.part = OpPart::kWeightGrad;
  device.matmul.weight_gradient_factor = 1.1;
  CHECK(close(kernel(gradient, device), 5e-6 + 1.1 * 110e-6));
  CHECK(close(kernel(work, device), 115e-6));

  // fp32 runs at the fp32 rate, a tenth here: 5 + 1000 + 10 us.
  KernelWork single = work;
  single.dtype = DType::kFp32;
  CHECK(close(kernel(single, device), 1015e-6));

  // Products inside attention follow their own curve: 1 us + 8e9 / 50e12 + 20 MB / 1 TB/s.
  device.batched_matmul = {1e-6, 0.5, 1, 1, {}};
  CHECK(close(kernel(work_of(KernelClass::kBatchedMatmul, OpKind::kScores, 8e9, 20 * kMB), device),
              181e-6));
}

TEST_CASE("flash attention adds the last block of rows and, where fitted, its bytes") {
  HardwareProfile device = round_device();
  device.flash_attention.startup = 8e-6;
  device.flash_attention.forward_efficiency = 0.5;
  device.flash_attention.backward_efficiency = 0.4;
  // 8 heads, 1024 tokens, head size 128, causal: 8 * 2 * 1024^2 * 128 FLOP forward.
  KernelWork work =
      work_of(KernelClass::kFlashAttention, OpKind::kFlashAttention, 2147483648.0, 8 * kMB);
  work.batch = 8;
  work.head_dim = 128;
  CHECK(close(kernel(work, device), 8e-6 + 2147483648.0 / 50e12));
  // sqrt(128 * 2 * 1024^2 * 128) = 131072 * sqrt(2); 1000 of that are added to the FLOP.
  device.flash_attention.tail = 1000;
  const double tail = 131072e3 * std::sqrt(2.0);
  CHECK(close(kernel(work, device), 8e-6 + (2147483648.0 + tail) / 50e12));
  device.flash_attention.tail = 0;
  device.flash_attention.forward_byte_efficiency = 2;
  CHECK(close(kernel(work, device), 8e-6 + 2147483648.0 / 50e12 + 4e-6));
  work.part = OpPart::kInputGrad;
  CHECK(close(kernel(work, device), 8e-6 + 2147483648.0 / 40e12));
  device.flash_attention.small_head_factor = 0.5;
  CHECK(close(kernel(work, device), 8e-6 + 2147483648.0 / 40e12));
  work.head_dim = 64;
  CHECK(close(kernel(work, device), 8e-6 + 2147483648.0 / 20e12));
}

TEST_CASE("a framework may run another flash kernel than the device's best") {
  HardwareProfile device = round_device();
  device.other_flash_attention["flash-attention-2"].forward_efficiency = 0.25;
  const KernelWork work = work_of(KernelClass::kFlashAttention, OpKind::kFlashAttention, 1e9, 0);
  SoftwareProfile software;
  CHECK(close(kernel(work, device, 1, software), 10e-6));
  software.flash_kernel = "flash-attention-2";
  CHECK(close(kernel(work, device, 1, software), 40e-6));
  software.flash_kernel = "flash-attention-9";
  CHECK(close(kernel(work, device, 1, software), 10e-6));
}

TEST_CASE("a memory-bound kernel takes its bytes, at least the floor") {
  const HardwareProfile device = round_device();
  SoftwareProfile software;
  // gelu has no curve of its own: max(4 us, 1 us + 10 MB / 0.5 TB/s).
  const KernelWork gelu = work_of(KernelClass::kMemoryBound, OpKind::kGelu, 0, 10 * kMB);
  CHECK(close(kernel(gelu, device), 21e-6));
  CHECK(
      close(kernel(work_of(KernelClass::kMemoryBound, OpKind::kAdd, 0, 10 * kMB), device), 10e-6));
  CHECK(close(kernel(work_of(KernelClass::kMemoryBound, OpKind::kGelu, 0, 1), device), 4e-6));
  // A framework that moves twice the bytes, on a device of another compute rate: 1 us + 40 us.
  software.memory_bound_factor = 2;
  CHECK(close(kernel(gelu, device, 0.5, software), 41e-6));
}

TEST_CASE("a framework with persistent layer norms has them at the widths that Apex compiles") {
  HardwareProfile device = round_device();
  device.memory_bound["layer_norm"] = {4e-6, 0, 0.5, {}};
  KernelWork norm = work_of(KernelClass::kMemoryBound, OpKind::kLayerNorm, 0, 10 * kMB);
  norm.n = 6144;
  SoftwareProfile software;
  software.persistent_layer_norm = true;
  // No such entry: the device's layer norm, 10 MB / 0.5 TB/s.
  CHECK(close(kernel(norm, device, 1, software), 20e-6));
  device.memory_bound["persistent_layer_norm"] = {4e-6, 0, 0.8, {}};
  CHECK(close(kernel(norm, device, 1, software), 12.5e-6));
  CHECK(close(kernel(norm, device), 20e-6));
  norm.n = 6145;
  CHECK(close(kernel(norm, device, 1, software), 20e-6));
  // Another op of that width keeps its curve: 1 us + 10 MB / 0.5 TB/s.
  norm = work_of(KernelClass::kMemoryBound, OpKind::kGelu, 0, 10 * kMB);
  norm.n = 6144;
  CHECK(close(kernel(norm, device, 1, software), 21e-6));
}

TEST_CASE("the update of the weights has its own curve, and views take no time") {
  HardwareProfile device = round_device();
  device.optimizer = {0, 20e-6, 0.8, {}};
  CHECK(close(kernel(work_of(KernelClass::kOptimizer, OpKind::kAdamW, 0, 800 * kMB), device),
              1020e-6));
  CHECK(kernel(work_of(KernelClass::kNone, OpKind::kFree, 0, 0), device) == 0);
}

TEST_CASE("a framework's kernels around the update move bytes of their own, by the weights' type") {
  HardwareProfile device = round_device();
  device.optimizer = {0, 0, 0.5, {}};
  SoftwareProfile software;
  software.update_traffic = {{DType::kFp16, 20}};
  KernelWork work = work_of(KernelClass::kOptimizer, OpKind::kAdamW, 0, 30 * kMB);
  work.m = 1, work.n = kMB;
  work.form.types[0] = DType::kFp16;
  work.form.num_writes = 1;
  // (30 + 20) MB / 0.5 TB/s; of bf16 nothing is said: 30 MB.
  CHECK(close(kernel(work, device, 1, software), 100e-6));
  work.form.types[0] = DType::kBf16;
  CHECK(close(kernel(work, device, 1, software), 60e-6));
}

TEST_CASE("the framework's factors weigh products, unfused attention and small kernels") {
  HardwareProfile device = round_device();
  device.matmul = {5e-6, 0.8, 2, 1, {}};
  device.batched_matmul = {5e-6, 0.8, 2, 1, {}};
  SoftwareProfile software;
  software.product_factor = 1.1;
  software.attention_factor = 2;
  software.unaligned_attention_factor = 10;
  // 5 us + 8e9 / 80e12 + 20 MB / 2 TB/s = 115 us alone.
  CHECK(close(
      kernel(work_of(KernelClass::kMatmul, OpKind::kLinear, 8e9, 20 * kMB), device, 1, software),
      1.1 * 115e-6));
  KernelWork scores = work_of(KernelClass::kBatchedMatmul, OpKind::kScores, 8e9, 20 * kMB);
  scores.head_dim = 128;
  CHECK(close(kernel(scores, device, 1, software), 2 * 115e-6));
  scores.head_dim = 108;  // no multiple of 8
  CHECK(close(kernel(scores, device, 1, software), 2 * 10 * 115e-6));
  // A softmax of 20 MB at half of 1 TB/s, 1 us startup: its bytes count twice.
  KernelWork softmax = work_of(KernelClass::kMemoryBound, OpKind::kSoftmax, 0, 20 * kMB);
  CHECK(close(kernel(softmax, device, 1, software), 41e-6));
  softmax.head_dim = 64;
  CHECK(close(kernel(softmax, device, 1, software), 81e-6));
  // What the framework adds to each op: sqrt(108^2 + 81^2) = 135.
  software.kernel_floor_us = 108;
  CHECK(close(kernel(softmax, device, 1, software), 135e-6));
  CHECK(kernel(work_of(KernelClass::kNone, OpKind::kFree, 0, 0), device, 1, software) == 0);
}

TEST_CASE("a framework's factor on memory-bound kernels leaves those of gradients alone") {
  const HardwareProfile device = round_device();
  SoftwareProfile software;
  software.memory_bound_factor = 2;
  KernelWork add = work_of(KernelClass::kMemoryBound, OpKind::kAdd, 0, 20 * kMB);
  // 20 MB at 1 TB/s; of activations 40 MB.
  CHECK(close(kernel(add, device, 1, software), 40e-6));
  add.of_gradients = true;
  CHECK(close(kernel(add, device, 1, software), 20e-6));
}

TEST_CASE("casts to 8 bits are a library's kernels, whatever a framework's own are") {
  const HardwareProfile device = round_device();
  SoftwareProfile eager;
  eager.memory_bound_factor = 2;
  const Shape shape = {4096, 4096};
  const OperandShape wide{&shape, DType::kBf16}, narrow{&shape, DType::kE4m3};
  const auto time = [&](OpKind kind, const OperandShape& written, const SoftwareProfile& software) {
    const KernelWork work = kernel_work(kind, OpPart::kForward, {}, {&wide, 1}, {&written, 1}, {});
    return kernel(work, device, 1, software);
  };
  CHECK(time(OpKind::kQuantize, narrow, eager) == time(OpKind::kQuantize, narrow, {}));
  CHECK(time(OpKind::kCast, narrow, eager) > 1.5 * time(OpKind::kCast, narrow, {}));
}

TEST_CASE("copies of gradients stream at the rate of casts") {
  const HardwareProfile device = round_device();
  SoftwareProfile software;
  SourceLog log;
  CHECK(gradient_copy_time(1000, device, software, log) == 0);
  software.gradient_traffic = 10;
  // 10^6 elements x 10 bytes at half of 1 TB/s.
  CHECK(close(gradient_copy_time(1'000'000, device, software, log), 20e-6));
  CHECK(gradient_copy_time(0, device, software, log) == 0);
}

TEST_CASE("a sum of pieces streams at an addition's rate where a framework has one") {
  const HardwareProfile device = round_device();
  SoftwareProfile software;
  software.async_tensor = true;
  SourceLog log;
  CHECK(piece_sum_rate(device, software, log) == 0);
  software.runs_async_tensor = true;
  CHECK(close(piece_sum_rate(device, software, log), 1e-12));
}

TEST_CASE("blocks of a ring are merged in fp32 where a framework has kernels of its own for it") {
  HardwareProfile device = round_device();
  device.flash_attention.forward_efficiency = device.flash_attention.backward_efficiency = 0.5;
  SoftwareProfile software;
  const auto added = [&](OpPart part, std::int32_t block, std::int32_t blocks) {
    KernelWork work = work_of(KernelClass::kFlashAttention, OpKind::kBlockAttention, 1e9, kMB);
    work.part = part;
    work.batch = 10, work.m = 1000, work.k = 100;  // 10^6 elements, which take 1 us a byte
    work.blocks = blocks, work.block = block;
    software.merges_blocks = false;
    const Seconds plain = kernel(work, device, 1, software);
    software.merges_blocks = true;
    return kernel(work, device, 1, software) - plain;
  };
  const auto us = [](double value) { return value * 1e-6; };
  // Forward, in fp16. First: cast 2 + 4, joined keys and values 2 x (2 + 2). Then three kernels of
  // two operands and a result in fp32, 36, too; the last joins nothing and casts back, 4 + 2.
  CHECK(close(added(OpPart::kForward, 0, 4), us(14)));
  CHECK(close(added(OpPart::kForward, 1, 4), us(50)));
  CHECK(close(added(OpPart::kForward, 3, 4), us(48)));
  // Backward. First: zeros and sums of queries', keys' and values' gradients, 3 x (4 + 10); what is
  // sent on, 2 x 8, and joined keys and values, 8. Then sums of all queries, 10, of half the keys,
  // 2 x 5, joined to the other half, 2 x 8. The last casts the three to fp16, 3 x 6.
  CHECK(close(added(OpPart::kInputGrad, 0, 4), us(66)));
  CHECK(close(added(OpPart::kInputGrad, 2, 4), us(60)));
  CHECK(close(added(OpPart::kInputGrad, 3, 4), us(70)));
  // No ring, no merges.
  CHECK(added(OpPart::kForward, 0, 0) == 0);
}

TEST_CASE("a type without a rate is said to be unsupported, with those that are") {
  const HardwareProfile device = round_device();
  CHECK(unsupported(device, DType::kFp16) == std::nullopt);
  CHECK(unsupported(device, DType::kBf16) ==
        "round has no rate for products in bf16; it has fp32, fp16");
}

TEST_CASE("the log names each entry that was used once, in order") {
  HardwareProfile device = round_device();
  device.matmul.provenance = {"fitted", "to a table"};
  SourceLog log;
  for (int i = 0; i < 3; ++i) {
    kernel_time(work_of(KernelClass::kMatmul, OpKind::kLinear, 1e9, kMB), device, {}, 1, log);
    kernel_time(work_of(KernelClass::kMemoryBound, OpKind::kGelu, 0, kMB), device, {}, 1, log);
    kernel_time(work_of(KernelClass::kMemoryBound, OpKind::kTanh, 0, kMB), device, {}, 1, log);
  }
  std::string names;
  for (const SourceEntry& entry : log.entries()) names += entry.name + " ";
  CHECK(names == "round.bandwidth round.default round.matmul round.peak ");
  const SourceEntry matmul = log.entries()[2];
  CHECK(matmul.kind == "fitted");
  CHECK(matmul.used_for == "linear layers");
  CHECK(matmul.note == "to a table");
}

}  // namespace trainyard::cost_model_test
