// What attention becomes: one kernel, or several with what a decoder has beside plain scores.
#include "engine/passes/select_kernels.h"

#include <catch2/catch.hpp>

#include "engine/graph/graph_builder.h"

namespace trainyard {

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
  CHECK(find(graph, OpKind::kScores).attrs.scale == Approx(0.5 / 5));  // 1 / sqrt(4), over the cap
  CHECK(find(graph, OpKind::kAffine).attrs.scale == 5);
  CHECK(find(graph, OpKind::kAffine).attrs.heads == 4);
  CHECK(find(graph, OpKind::kSoftmax).attrs.attended == 3);
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
  CHECK(find(select(shape, true), OpKind::kFlashAttention).attrs.attended == 0);
  shape.attended = 7;
  CHECK(find(select(shape, true), OpKind::kFlashAttention).attrs.attended == 7);
}

}  // namespace trainyard
