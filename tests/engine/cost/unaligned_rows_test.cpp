// Which products count as not aligned, and by how much they are slower, worked out by hand.
#include "engine/cost/unaligned_rows.h"

#include <catch2/catch.hpp>
#include <vector>

#include "engine/cost/cost_model.h"
#include "tests/support/round_device.h"

namespace trainyard::unaligned_rows_test {

namespace {

const UnalignedRows kRows = {3, 5, 8, {"fitted", "round numbers"}};

KernelWork product(OpKind kind, OpPart part, std::int64_t m, std::int64_t n, std::int64_t k) {
  KernelWork work;
  work.cls = kind == OpKind::kLinear ? KernelClass::kMatmul : KernelClass::kBatchedMatmul;
  work.kind = kind;
  work.part = part;
  work.dtype = DType::kBf16;
  work.m = m, work.n = n, work.k = k;
  return work;
}

double factor(OpKind kind, OpPart part, std::int64_t m, std::int64_t n, std::int64_t k) {
  return unaligned_factor(product(kind, part, m, n, k), kRows);
}

}  // namespace

TEST_CASE("of a linear layer its inputs and outputs are rows, and its tokens are not") {
  constexpr std::int64_t kTokens = 8191;
  // y [8191, out] = x [8191, in] w [out, in]; dx = dy w; dw [out, in] = dy x.
  const auto layer = [](std::int64_t in, std::int64_t out) {
    return std::vector<double>{factor(OpKind::kLinear, OpPart::kForward, kTokens, out, in),
                               factor(OpKind::kLinear, OpPart::kInputGrad, kTokens, in, out),
                               factor(OpKind::kLinear, OpPart::kWeightGrad, out, in, kTokens)};
  };
  CHECK(layer(1024, 50304) == std::vector<double>{1, 1, 1});
  // Rows of y and dy are odd: the forward writes them, the backward reads them.
  CHECK(layer(1024, 50257) == std::vector<double>{8, 5, 5});
  CHECK(layer(1024, 50258) == std::vector<double>{3, 3, 3});
  CHECK(layer(1024, 50260) == std::vector<double>{3, 3, 3});
  // Rows of x and w are odd, and read in all three.
  CHECK(layer(1023, 50304) == std::vector<double>{5, 5, 5});
  CHECK(layer(1020, 50304) == std::vector<double>{3, 3, 3});
  // One row of a read operand decides, whatever else is even.
  CHECK(layer(1022, 50257) == std::vector<double>{8, 5, 5});
  // A column has no rows: the head of a regression.
  CHECK(layer(1024, 1) == std::vector<double>{1, 1, 1});
}

TEST_CASE("attention's products have rows of a head and of the keys") {
  const auto scores = [](OpPart part, std::int64_t keys, std::int64_t head) {
    return factor(OpKind::kScores, part, 2047, keys, head);
  };
  const auto context = [](OpPart part, std::int64_t keys, std::int64_t head) {
    return factor(OpKind::kContext, part, 2047, head, keys);
  };
  for (const OpPart part : {OpPart::kForward, OpPart::kInputGrad}) {
    CHECK(scores(part, 2048, 64) == 1);
    CHECK(context(part, 2048, 64) == 1);
    CHECK(scores(part, 2048, 108) == 3);
    CHECK(context(part, 2048, 150) == 3);
    CHECK(context(part, 197, 64) == 5);
  }
  // The scores of 197 patches are only written; their gradients are read.
  CHECK(scores(OpPart::kForward, 197, 64) == 8);
  CHECK(scores(OpPart::kInputGrad, 197, 64) == 5);
  CHECK(context(OpPart::kForward, 2048, 101) == 5);
}

TEST_CASE("a batched product reads its second operand as it is multiplied") {
  // y [m,n] = a [m,k] b [k,n]; da [m,k] = dy b^T, so that n and k change places; db [k,n] = a^T dy.
  CHECK(factor(OpKind::kBmm, OpPart::kForward, 64, 33, 64) == 5);
  CHECK(factor(OpKind::kBmm, OpPart::kInputGrad, 64, 64, 33) == 5);
  CHECK(factor(OpKind::kBmm, OpPart::kInputGrad, 64, 33, 64) == 8);  // rows of da
  CHECK(factor(OpKind::kBmm, OpPart::kWeightGrad, 64, 33, 64) == 5);
  CHECK(factor(OpKind::kBmm, OpPart::kForward, 33, 64, 64) == 1);
}

TEST_CASE("other types, kernels and devices know no such rows") {
  KernelWork work = product(OpKind::kLinear, OpPart::kForward, 64, 33, 64);
  CHECK(unaligned_factor(work, UnalignedRows{}) == 1);
  work.dtype = DType::kFp32;
  CHECK(unaligned_factor(work, kRows) == 1);
  work = product(OpKind::kChunkScan, OpPart::kForward, 64, 33, 64);
  CHECK(unaligned_factor(work, kRows) == 1);
  work.cls = KernelClass::kMemoryBound;
  CHECK(unaligned_factor(work, kRows) == 1);
}

namespace {

HardwareProfile slow_off_alignment() {
  HardwareProfile device = round_device();
  device.unaligned = kRows;
  return device;
}

}  // namespace

TEST_CASE("the arithmetic alone is slower, and what lasts under power limits it no more") {
  HardwareProfile device = slow_off_alignment();
  device.matmul = {5e-6, 0.8, 2, 1, {}};
  device.sustained.products = 0.5;
  KernelWork work = product(OpKind::kLinear, OpPart::kForward, 64, 48, 64);
  work.flop = 8e9, work.bytes = 20'000'000;
  const auto seconds = [&] {
    SourceLog log;
    return kernel_time(work, device, {}, 1, log);
  };
  // 5 us + 8e9 / (80e12 / 2) + 20 MB / 2 TB/s.
  CHECK(seconds() == Approx(215e-6));
  // 8e9 / (80e12 / 3): a third of the rate needs less power than half of it.
  work.n = 44;
  CHECK(seconds() == Approx(315e-6));
  device.unaligned.even = 1.5;
  CHECK(seconds() == Approx(215e-6));
}

TEST_CASE("a framework's own number of such heads goes before the device's") {
  HardwareProfile device = slow_off_alignment();
  device.batched_matmul = {5e-6, 0.8, 2, 1, {}};
  KernelWork work = product(OpKind::kScores, OpPart::kForward, 2048, 2048, 108);
  work.head_dim = 108;
  work.flop = 8e9, work.bytes = 20'000'000;
  SoftwareProfile software;
  SourceLog log;
  // 5 us + 3 x 100 us + 10 us by the device; 10 x 115 us by the framework.
  CHECK(kernel_time(work, device, software, 1, log) == Approx(315e-6));
  software.unaligned_attention_factor = 10;
  CHECK(kernel_time(work, device, software, 1, log) == Approx(1150e-6));
}

}  // namespace trainyard::unaligned_rows_test
