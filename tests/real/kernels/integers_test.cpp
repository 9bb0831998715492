// Kernels of integers and conditions, which have no gradient: by numbers that can be checked by
// eye.
#include <catch2/catch.hpp>
#include <vector>

#include "real/kernels/kernel.h"
#include "tests/real/test_device.h"

namespace trainyard::integers_test {

namespace {

at::Tensor row(const std::vector<std::int64_t>& numbers) {
  return at::tensor(numbers, at::kLong).to(test_device());
}

/// What a kernel makes of a [n] and b [n].
std::vector<std::int64_t> combined(Combination combination, const at::Tensor& a,
                                   const at::Tensor& b) {
  OpAttrs attrs;
  attrs.combination = combination;
  KernelCall call;
  call.attrs = &attrs;
  call.device = test_device();
  call.reads = {a, b};
  call.writes.resize(1);
  call.write_shapes = {{a.size(0)}};
  call.write_types = {makes_conditions(combination) ? at::kByte : a.scalar_type()};
  find_kernel(OpKind::kCombine, OpPart::kForward)(call);
  const at::Tensor out = call.writes[0].cpu().to(at::kLong);
  return {out.const_data_ptr<std::int64_t>(), out.const_data_ptr<std::int64_t>() + out.numel()};
}

}  // namespace

TEST_CASE("integers are compared, divided and chosen as ONNX has it") {
  using Numbers = std::vector<std::int64_t>;
  const at::Tensor a = row({-7, 0, 5, 16777217}), b = row({3, 3, 5, 16777216});
  REQUIRE(combined(Combination::kEqual, a, b) == Numbers{0, 0, 1, 0});
  REQUIRE(combined(Combination::kLess, a, b) == Numbers{1, 1, 0, 0});
  REQUIRE(combined(Combination::kLessOrEqual, a, b) == Numbers{1, 1, 1, 0});
  REQUIRE(combined(Combination::kAnd, a, b) == Numbers{1, 0, 1, 1});
  REQUIRE(combined(Combination::kOr, a, row({0, 0, 0, 0})) == Numbers{1, 0, 1, 1});
  REQUIRE(combined(Combination::kRemainder, a, b) == Numbers{2, 0, 0, 1});  // -7 = -3 * 3 + 2
  REQUIRE(combined(Combination::kQuotient, a, b) == Numbers{-2, 0, 1, 1});  // -7 / 3, towards 0
  REQUIRE(combined(Combination::kLeast, a, b) == Numbers{-7, 0, 5, 16777216});
  REQUIRE(combined(Combination::kLargest, a, b) == Numbers{3, 3, 5, 16777217});
}

TEST_CASE("the largest are found from the largest down, of equal ones the first") {
  KernelCall call;
  OpAttrs attrs;
  call.attrs = &attrs;
  call.device = test_device();
  call.reads = {at::stack({row({1, 9, 9, 2}), row({0, 0, 5, 0})})};
  call.writes.resize(1);
  call.write_shapes = {{2, 3}};
  call.write_types = {at::kLong};
  find_kernel(OpKind::kTopk, OpPart::kForward)(call);
  const std::vector<std::int64_t> expected = {1, 2, 3, 2, 0, 1};
  REQUIRE(call.writes[0].cpu().flatten().equal(at::tensor(expected, at::kLong)));
}

TEST_CASE("the first of the largest is found") {
  KernelCall call;
  OpAttrs attrs;
  call.attrs = &attrs;
  call.device = test_device();
  call.reads = {at::stack({row({1, 9, 9, 2}), row({0, 0, 0, 0})})};
  call.writes.resize(1);
  call.write_shapes = {{2}};
  call.write_types = {at::kLong};
  find_kernel(OpKind::kArgmax, OpPart::kForward)(call);
  REQUIRE(call.writes[0].cpu().equal(at::tensor(std::vector<std::int64_t>{1, 0}, at::kLong)));
}

}  // namespace trainyard::integers_test
