// Kernels that a framework runs beside an op's own, on round numbers: every expectation is derived
// beside it.
#include "engine/cost/further_kernels.h"

#include <catch2/catch.hpp>
#include <vector>

#include "engine/cost/cost_model.h"
#include "engine/graph/count_work.h"

namespace trainyard::further_kernels_test {

namespace {

HardwareProfile round_device() {
  HardwareProfile device;
  device.name = "round";
  device.peak = {{DType::kFp16, 100e12}};
  device.memory_bandwidth = 1e12;
  device.memory_bound["default"] = {0, 0, 0.5, {"fitted", "default"}};
  device.memory_bound["add"] = {0, 0, 1, {"measured", "add"}};
  device.memory_bound["transpose"] = {0, 0, 0.25, {"measured", "transpose"}};
  device.matmul = {0, 1, 1, 1, {}};
  device.batched_matmul = {0, 1, 1, 1, {}};
  device.flash_attention.forward_efficiency = device.flash_attention.backward_efficiency = 1;
  return device;
}

struct Operands {
  std::vector<Shape> shapes;
  std::vector<OperandShape> list(DType type) const {
    std::vector<OperandShape> operands;
    for (const Shape& shape : shapes) operands.push_back({&shape, type});
    return operands;
  }
};

KernelWork work_of(OpKind kind, OpPart part, const OpAttrs& attrs, const Operands& reads,
                   const Operands& writes, DType of_writes = DType::kFp16) {
  return kernel_work(kind, part, attrs, reads.list(DType::kFp16), writes.list(of_writes), {});
}

Seconds time(const KernelWork& work, const SoftwareProfile& software) {
  SourceLog log;
  return kernel_time(work, round_device(), software, 1, log);
}

/// What the flags of `software` add to the time that a framework without them has.
Seconds added(const KernelWork& work, const SoftwareProfile& software) {
  return time(work, software) - time(work, {});
}

constexpr std::int64_t kTokens = 1000, kWidth = 500;  // 0.5 M elements, 1 MB in 16 bits

}  // namespace

TEST_CASE("the gradient of a bias is a sum that reads the op's gradient once") {
  SoftwareProfile software;
  software.sums_bias_gradients = true;
  OpAttrs attrs;
  attrs.has_bias = true;
  const Operands two{{{kTokens, kWidth}, {kTokens, kWidth}}}, one{{{kTokens, kWidth}}};
  const Operands weight{{{kWidth, kWidth}}};
  // 1 MB at the rate of an addition, 1 TB/s.
  for (const OpKind kind : {OpKind::kBiasGelu, OpKind::kBiasDropoutAdd}) {
    INFO(to_string(kind));
    CHECK(added(work_of(kind, OpPart::kBackward, attrs, two, one), software) == Approx(1e-6));
    CHECK(added(work_of(kind, OpPart::kForward, attrs, two, one), software) == 0);
  }
  const OpKind linear = OpKind::kLinear;
  CHECK(added(work_of(linear, OpPart::kWeightGrad, attrs, two, weight), software) == Approx(1e-6));
  CHECK(added(work_of(linear, OpPart::kInputGrad, attrs, {{{kTokens, kWidth}, {kWidth, kWidth}}},
                      one),
              software) == 0);
  // A framework that moves more around its kernels moves more here.
  software.memory_bound_factor = 1.5;
  SoftwareProfile plain;
  plain.memory_bound_factor = 1.5;
  const KernelWork gelu = work_of(OpKind::kBiasGelu, OpPart::kBackward, attrs, two, one);
  CHECK(time(gelu, software) - time(gelu, plain) == Approx(1.5e-6));
  attrs.has_bias = false;
  CHECK(added(work_of(linear, OpPart::kWeightGrad, attrs, two, weight), [] {
          SoftwareProfile sums;
          sums.sums_bias_gradients = true;
          return sums;
        }()) == 0);
}

TEST_CASE("gradients of q, k and v are copied into the packed tensor's") {
  SoftwareProfile software;
  software.copies_split_gradients = true;
  OpAttrs attrs;
  attrs.heads = 5, attrs.kv_heads = 5, attrs.head_dim = 100;
  attrs.packed = true;
  const Operands reads{{{1, 5, kTokens, kTokens}, {1, kTokens, kWidth}, {1, kTokens, kWidth}}};
  const Operands writes{{{1, kTokens, kWidth}, {1, kTokens, kWidth}}};
  // Three of 1 MB are read and written at 0.25 TB/s.
  CHECK(added(work_of(OpKind::kScores, OpPart::kInputGrad, attrs, reads, writes), software) ==
        Approx(24e-6));
  const Operands core{{{1, kTokens, kWidth}}}, packed{{{1, kTokens, 3 * kWidth}}};
  Operands read{{core.shapes[0], packed.shapes[0], core.shapes[0], {1, 5, kTokens}}};
  CHECK(added(work_of(OpKind::kFlashAttention, OpPart::kInputGrad, attrs, read, packed),
              software) == Approx(24e-6));
  attrs.packed = false;  // q of its own is not a part
  CHECK(added(work_of(OpKind::kScores, OpPart::kInputGrad, attrs, reads, writes), software) == 0);
}

TEST_CASE("a triangular softmax reads what is attended, and writes all") {
  SoftwareProfile software;
  software.triangular_softmax = true;
  OpAttrs attrs;
  attrs.causal = true;
  const auto softmax = [&](OpPart part, std::int64_t keys) {
    const Shape square{1, 1, 1'000'000 / keys, keys};  // 1 M elements, 2 MB
    const Operands reads{part == OpPart::kForward ? std::vector{square}
                                                  : std::vector{square, square}};
    return time(work_of(OpKind::kSoftmax, part, attrs, reads, {{square}}), software);
  };
  // (1 + 2) MB and (1 + 1 + 2) MB at 0.5 TB/s; a square would be 4 and 6 MB.
  CHECK(softmax(OpPart::kForward, 1000) == Approx(6e-6));
  CHECK(softmax(OpPart::kInputGrad, 1000) == Approx(8e-6));
  // Rows of more than 2,048 keys take another kernel, and so do those of BERT.
  CHECK(softmax(OpPart::kForward, 2500) == Approx(8e-6));
  attrs.causal = false;
  CHECK(softmax(OpPart::kForward, 1000) == Approx(8e-6));
}

TEST_CASE("a loss in many kernels moves its bytes per logit, shared vocabulary or not") {
  SoftwareProfile software;
  software.loss_traffic = {38, 14};
  const Shape logits{kTokens, kWidth}, labels{kTokens};
  const Operands whole{{logits, labels}}, shared{{logits, labels, {kTokens}, {kTokens}}};
  const Operands log_probabilities{{logits}};
  const auto loss = [&](OpPart part, const Operands& reads) {
    return time(work_of(OpKind::kCrossEntropy, part, {}, reads, log_probabilities), software);
  };
  // 0.5 M logits at 0.5 TB/s.
  CHECK(loss(OpPart::kForward, whole) == Approx(38e-6));
  CHECK(loss(OpPart::kInputGrad, whole) == Approx(14e-6));
  // Maxima and sums, ops of their own there, read 2 bytes each.
  CHECK(loss(OpPart::kForward, shared) == Approx(34e-6));
  const auto read = [&](OpKind kind) {
    return time(work_of(kind, OpPart::kForward, {}, {{logits}}, {}), software);
  };
  CHECK(read(OpKind::kCrossEntropyMax) + read(OpKind::kCrossEntropySum) == Approx(4e-6));
}

}  // namespace trainyard::further_kernels_test
