// What attention becomes: one kernel, or several with what a decoder has beside plain scores.
#include "engine/passes/select_kernels.h"

#include <catch2/catch.hpp>

#include "engine/graph/graph_builder.h"

namespace trainyard::select_kernels_test {

namespace {

constexpr AttentionShape kShape{.heads = 4, .kv_heads = 2, .head_dim = 4, .causal = true};

Graph select(const AttentionShape& shape, bool flash) {
  GraphBuilder m("attention", DType::kFp32);
  const TensorId x = m.input("x", {1, 8, 32}, DType::kFp32);
  const TensorId y =
      m.attention("attention", m.linear("qkv", x, 32, false, SplitHint::kColumn), shape);
  const TensorId target = m.input("target", {1, 8, 16}, DType::kFp32);
  return select_kernels(m.finish(m.mse("loss", y, target)), SoftwareProfile{}, flash);
}

std::string kinds(const Graph& graph) {
  std::string text;
  for (const Op& op : graph.ops)
    text += (text.empty() ? "" : " ") + std::string(to_string(op.kind));
  return text;
}

const Op& find(const Graph& graph, OpKind kind) {
  for (const Op& op : graph.ops) {
    if (op.kind == kind) return op;
  }
  FAIL("no such op");
  return graph.ops.front();
}

}  // namespace

TEST_CASE("scores are capped between their product and the softmax") {
  AttentionShape shape = kShape;
  shape.softcap = 5;
  shape.attended = 3;
  const Graph graph = select(shape, false);
  CHECK(kinds(graph) == "linear split scores tanh affine softmax context mse");
  CHECK(find(graph, OpKind::kScores).attrs->scale == Approx(0.5 / 5));  // 1 / sqrt(4), over the cap
  CHECK(find(graph, OpKind::kAffine).attrs->scale == 5);
  CHECK(find(graph, OpKind::kAffine).attrs->heads == 4);
  CHECK(find(graph, OpKind::kSoftmax).attrs->attended == 3);
}

TEST_CASE("the kernel that never keeps scores takes windows, and neither caps nor ALiBi") {
  AttentionShape shape = kShape;
  shape.attended = 3;
  CHECK(kinds(select(shape, true)) == "linear flash_attention mse");
  shape.alibi = 1;
  CHECK(kinds(select(shape, true)) == "linear split scores softmax context mse");
  shape.alibi = 0;
  shape.softcap = 2;
  CHECK(kinds(select(shape, true)) == "linear split scores tanh affine softmax context mse");
}

TEST_CASE("a window as long as the sequence is none") {
  AttentionShape shape = kShape;
  shape.attended = 8;
  CHECK(find(select(shape, true), OpKind::kFlashAttention).attrs->attended == 0);
  shape.attended = 7;
  CHECK(find(select(shape, true), OpKind::kFlashAttention).attrs->attended == 7);
}

namespace {

/// One MLP and attention without flash of a framework under autocast.
Graph by_autocast(DType type, bool tanh_gelu) {
  AttentionShape shape = kShape;
  shape.kv_heads = 4;
  GraphBuilder m("block", type);
  const TensorId x = m.input("x", {1, 8, 48}, type);
  TensorId y = m.attention("attention", x, shape);
  y = m.activation("mlp", OpKind::kGelu, y, tanh_gelu);
  const TensorId target = m.input("target", {1, 8, 16}, type);
  SoftwareProfile software;
  software.autocast_kernels = true;
  return select_kernels(m.finish(m.mse("loss", y, target)), software, false);
}

}  // namespace

TEST_CASE(
    "autocast takes softmax and the power in GELU in fp32, a kernel for each op of the source") {
  const Graph graph = by_autocast(DType::kFp16, true);
  CHECK(kinds(graph) ==
        "split scores affine cast softmax cast context "
        "cast power affine add affine tanh affine affine mul cast mse");
  // 1 / sqrt(4) by a kernel of its own.
  CHECK(find(graph, OpKind::kScores).attrs->scale == 1);
  CHECK(find(graph, OpKind::kAffine).attrs->scale == 0.5F);
  for (const OpKind kind : {OpKind::kSoftmax, OpKind::kPower, OpKind::kTanh, OpKind::kMul})
    CHECK(graph.tensors[find(graph, kind).outputs[0]].dtype == DType::kFp32);
  CHECK(graph.tensors[find(graph, OpKind::kContext).inputs[0]].dtype == DType::kFp16);
  CHECK(graph.tensors[find(graph, OpKind::kMse).inputs[0]].dtype == DType::kFp16);
}

TEST_CASE("without 16 bits nothing is cast; the GELU of the error function is one kernel") {
  CHECK(kinds(by_autocast(DType::kFp32, true)) ==
        "split scores affine softmax context power affine add affine tanh affine affine mul mse");
  CHECK(kinds(by_autocast(DType::kBf16, false)) ==
        "split scores affine cast softmax cast context gelu mse");
}

}  // namespace trainyard::select_kernels_test
