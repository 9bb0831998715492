// Forms of kernels as text, and what tells two ops apart.
#include "engine/graph/kernel_form.h"

#include <catch2/catch.hpp>

#include "engine/graph/count_work.h"

namespace trainyard::kernel_form_test {

namespace {

KernelWork gelu_work(const OpAttrs& attrs, DType type) {
  const Shape shape = {4, 128, 512};
  const OperandShape x{&shape, type};
  return kernel_work(OpKind::kGelu, OpPart::kForward, attrs, {&x, 1}, {&x, 1}, {});
}

}  // namespace

TEST_CASE("a form prints and parses back") {
  for (const char* text :
       {"linear bf16 bf16 fp32 -> bf16", "linear_dw bf16 bf16 +> fp32 fp32",
        "softmax fp32 -> fp32 causal mask", "softmax fp32 -> fp32 causal window alibi",
        "zero -> fp32", "sum_squares fp32 +> fp64", "gelu_dx bf16 bf16 -> bf16 tanh"}) {
    CAPTURE(text);
    const auto form = parse_kernel_form(text);
    REQUIRE(form.has_value());
    CHECK(to_string(*form) == text);
  }
}

TEST_CASE("what is no form is none") {
  for (const char* text : {"", "lineal fp32 -> fp32", "linear fp31", "linear fp32 +> fp32 -> fp32",
                           "linear fp32 -> fp32 mask causal", "linear fp32  -> fp32",
                           "add fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_kernel_form(text).has_value());
  }
}

TEST_CASE("the op table gives every kernel its form and its shape") {
  OpAttrs attrs;
  const KernelWork plain = gelu_work(attrs, DType::kFp32);
  CHECK(to_string(plain.form) == "gelu fp32 -> fp32");
  CHECK(plain.m == 512);  // 4 x 128 rows
  CHECK(plain.n == 512);
  attrs.tanh_gelu = true;
  CHECK(to_string(gelu_work(attrs, DType::kBf16).form) == "gelu bf16 -> bf16 tanh");
  CHECK(gelu_work(attrs, DType::kFp32).form != plain.form);
}

TEST_CASE("flash attention computes what its window leaves of the square") {
  // 2 samples of 8 tokens, 3 heads of 4 features: 4 x 2 x 3 x 8 x 8 x 4 FLOP of the square, of
  // which causal leaves half. A window of 3 leaves each query 3 of 8 keys, the first two less:
  // 3 x 8 - 3 = 21 of 64 pairs; one of 8, 36 of 64, is counted as causal is.
  const Shape qkv = {2, 8, 36}, out = {2, 8, 12};
  const OperandShape in{&qkv, DType::kBf16}, to{&out, DType::kBf16};
  OpAttrs attrs;
  attrs.heads = attrs.kv_heads = 3, attrs.head_dim = 4, attrs.packed = true, attrs.causal = true;
  const auto flop = [&](int attended) {
    attrs.attended = attended;
    return kernel_work(OpKind::kFlashAttention, OpPart::kForward, attrs, {&in, 1}, {&to, 1}, {})
        .flop;
  };
  constexpr double kSquare = 4 * 2 * 3 * 8 * 8 * 4;
  CHECK(flop(0) == kSquare / 2);
  CHECK(flop(3) == Approx(kSquare * 21 / 64));
  CHECK(flop(8) == kSquare / 2);
}

TEST_CASE("an embedding's shape is tokens, width and rows of the table") {
  const Shape tokens = {2, 64}, table = {1000, 32}, rows = {2, 64, 32};
  const OperandShape forward[] = {{&tokens, DType::kInt64}, {&table, DType::kFp32}};
  const OperandShape out{&rows, DType::kFp32};
  const KernelWork work =
      kernel_work(OpKind::kEmbedding, OpPart::kForward, {}, forward, {&out, 1}, {});
  CHECK(work.m == 128);
  CHECK(work.n == 32);
  CHECK(work.k == 1000);
  const OperandShape gradient[] = {{&rows, DType::kFp32}, {&tokens, DType::kInt64}};
  const OperandShape sums{&table, DType::kFp32};
  const KernelWork back =
      kernel_work(OpKind::kEmbedding, OpPart::kWeightGrad, {}, gradient, {}, {&sums, 1});
  CHECK(back.m == 128);
  CHECK(back.n == 32);
  CHECK(back.k == 1000);
}

}  // namespace trainyard::kernel_form_test
