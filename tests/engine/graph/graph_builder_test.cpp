// GraphBuilder op by op: names, shapes, gradients and FLOP; then what find_violation() says about
// graphs that were broken on purpose.
#include "engine/graph/graph_builder.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

namespace trainyard::graph_builder_test {

namespace {

/// A two-layer classifier: x [2, 3] tokens -> rows of 4 -> two linears -> loss.
struct Small {
  GraphBuilder builder{"small", DType::kBf16};
  TensorId tokens = builder.input("tokens", {2, 3}, DType::kInt64);
  TensorId table = builder.parameter("table", {10, 4}, SplitHint::kVocabulary, true, 16);
  TensorId rows = builder.embedding("embedding", tokens, table);
};

Graph small_graph() {
  Small s;
  s.builder.set_layer(0);
  const TensorId a = s.builder.linear("a", s.rows, 8, true, SplitHint::kColumn);
  s.builder.set_layer(1);
  const TensorId b = s.builder.linear("b", a, 4, true, SplitHint::kRow);
  s.builder.set_layer(-1);
  const TensorId logits = s.builder.lm_head("head", b, s.table);
  const TensorId labels = s.builder.input("labels", {2, 3}, DType::kInt64);
  return s.builder.finish(s.builder.cross_entropy("loss", logits, labels));
}

const Tensor& tensor(const Graph& graph, TensorId id) { return graph.tensors[id]; }

}  // namespace

TEST_CASE("activations are named after module and kind, numbered from the second on") {
  Small s;
  const TensorId x = s.builder.add("block", s.rows, s.rows);
  const TensorId y = s.builder.add("block", x, s.rows);
  const TensorId z = s.builder.dropout("block", y, 0.5);
  s.builder.linear("block.out", z, 1, false, SplitHint::kNone);
  const Graph graph = s.builder.finish(kNoIndex);
  CHECK(tensor(graph, x).name == "block.add");
  CHECK(tensor(graph, y).name == "block.add:1");
  CHECK(tensor(graph, z).name == "block.dropout");
  CHECK(graph.tensors.back().name == "block.out.linear");
  CHECK(graph.modules == std::vector<std::string>{"embedding", "block", "block.out"});
}

TEST_CASE("data needs no gradient; parameters and what depends on them do") {
  const Graph graph = small_graph();
  for (const Tensor& it : graph.tensors) {
    CAPTURE(it.name);
    CHECK(it.needs_gradient == (it.role != TensorRole::kInput));
  }
}

TEST_CASE("a linear creates its parameters; split by row its bias stays whole") {
  const Graph graph = small_graph();
  const auto parameter = [&](std::size_t i) { return graph.parameters[ParameterId(i)]; };
  CHECK(parameter(1).name == "a.weight");
  CHECK(parameter(1).shape == Shape{8, 4});
  CHECK(parameter(1).split == SplitHint::kColumn);
  CHECK(parameter(1).decay);
  CHECK(parameter(2).name == "a.bias");
  CHECK(parameter(2).split == SplitHint::kColumn);
  CHECK_FALSE(parameter(2).decay);
  CHECK(parameter(3).split == SplitHint::kRow);
  CHECK(parameter(4).split == SplitHint::kNone);
}

TEST_CASE("the FLOP of products count 2 per multiply-add and the vocabulary without padding") {
  // 6 rows: 4 -> 8, 8 -> 4, 4 -> 10 (16 with padding).
  CHECK(small_graph().model_flop_per_microbatch == 2 * 6 * (4 * 8 + 8 * 4 + 4 * 10));
}

TEST_CASE("the LM head has logits as wide as the padded table") {
  const Graph graph = small_graph();
  CHECK(graph.parameters[ParameterId(0)].shape == Shape{10, 4});
  CHECK(graph.parameters[ParameterId(0)].padded == Shape{16, 4});
  CHECK(tensor(graph, graph.ops[OpId(3)].outputs[0]).shape == Shape{2, 3, 16});
}

TEST_CASE("norms also produce the statistics that their backward reads") {
  Small s;
  s.builder.layer_norm("ln", s.rows);
  s.builder.rms_norm("rms", s.rows);
  const Graph graph = s.builder.finish(kNoIndex);
  const Op& layer_norm = graph.ops[OpId(1)];
  REQUIRE(layer_norm.outputs.size() == 2);
  CHECK(layer_norm.inputs.size() == 3);
  CHECK(tensor(graph, layer_norm.outputs[0]).name == "ln.layer_norm");
  const Tensor& statistics = tensor(graph, layer_norm.outputs[1]);
  CHECK(statistics.name == "ln.statistics");
  CHECK(statistics.shape == Shape{2, 3, 2});  // mean, 1 / deviation
  CHECK(statistics.dtype == DType::kFp32);
  CHECK_FALSE(statistics.needs_gradient);
  CHECK(graph.ops[OpId(2)].inputs.size() == 2);
  CHECK(tensor(graph, graph.ops[OpId(2)].outputs[1]).shape ==
        Shape{2, 3, 1});  // 1 / root mean square
}

TEST_CASE("self-attention takes packed qkv, then mask, then bias") {
  GraphBuilder builder("attention", DType::kBf16);
  // B = 2, S = 5, N = 4, Nkv = 2, H = 8.
  const TensorId x = builder.input("x", {2, 5, 3}, DType::kBf16);
  const TensorId qkv = builder.linear("qkv", x, (4 + 2 * 2) * 8, false, SplitHint::kColumn);
  const TensorId mask = builder.input("mask", {2, 5}, DType::kUint8);
  const TensorId table = builder.parameter("bias", {32, 4}, SplitHint::kHeads);
  const TensorId bias = builder.relative_bias("bias", table, 5, 5, /*causal=*/true);
  const TensorId y = builder.attention(
      "core", qkv, {.heads = 4, .kv_heads = 2, .head_dim = 8, .causal = true, .dropout = 0.25},
      mask, bias);
  const Graph graph = builder.finish(kNoIndex);
  const Op& op = graph.ops.back();
  CHECK(op.inputs == decltype(op.inputs){qkv, mask, bias});
  CHECK(tensor(graph, y).shape == Shape{2, 5, 32});
  CHECK(tensor(graph, bias).shape == Shape{4, 5, 5});
  CHECK((op.attrs->packed && op.attrs->causal && op.attrs->has_mask && op.attrs->has_bias));
  CHECK(op.attrs->rate == 0.25F);
  CHECK(op.attrs->scale == Approx(1 / std::sqrt(8.0)));
  // The projection, then scores and context over the full square although causal.
  CHECK(graph.model_flop_per_microbatch == 2 * 10 * 3 * 64 + 2 * (2 * 2 * 4 * 5 * 5 * 8));
}

TEST_CASE("cross-attention takes q and kv apart, over a length of their own") {
  GraphBuilder builder("attention", DType::kBf16);
  const TensorId q = builder.input("q", {2, 5, 32}, DType::kBf16);
  const TensorId kv = builder.input("kv", {2, 7, 64}, DType::kBf16);
  const TensorId y = builder.cross_attention(
      "core", q, kv, {.heads = 4, .kv_heads = 4, .head_dim = 8, .scaled = false});
  const Graph graph = builder.finish(kNoIndex);
  CHECK(tensor(graph, y).shape == Shape{2, 5, 32});
  CHECK_FALSE(graph.ops.back().attrs->packed);
  CHECK(graph.ops.back().attrs->scale == 1);
  CHECK(graph.model_flop_per_microbatch == 2 * (2 * 2 * 4 * 5 * 7 * 8));
}

TEST_CASE("dropout at rate 0 is no op") {
  Small s;
  CHECK(s.builder.dropout("d", s.rows, 0) == s.rows);
  CHECK(s.builder.finish(kNoIndex).ops.size() == 1);
}

TEST_CASE("gated activations halve the last dim, the first token drops the second") {
  Small s;
  CHECK(s.builder.shape(s.builder.activation("g", OpKind::kSwiglu, s.rows)) == Shape{2, 3, 2});
  CHECK(s.builder.shape(s.builder.activation("g", OpKind::kGelu, s.rows)) == Shape{2, 3, 4});
  CHECK(s.builder.shape(s.builder.select_first("p", s.rows)) == Shape{2, 4});
}

TEST_CASE("losses add up to a loss in fp32") {
  Small s;
  const TensorId labels = s.builder.input("labels", {2, 3}, DType::kInt64);
  const TensorId logits = s.builder.lm_head("head", s.rows, s.table);
  const TensorId a = s.builder.cross_entropy("a", logits, labels);
  const TensorId b = s.builder.cross_entropy("b", logits, labels);
  const Graph graph = s.builder.finish(s.builder.add("loss", a, b));
  CHECK(find_violation(graph).empty());
  CHECK(tensor(graph, graph.loss).dtype == DType::kFp32);
  CHECK(tensor(graph, graph.loss).shape == Shape{1});
}

TEST_CASE("heads and unused parameters are counted apart") {
  Small s;
  s.builder.unused_parameter("pooler", {5, 5});
  s.builder.set_head(true);
  s.builder.linear("head", s.rows, 3, false, SplitHint::kNone);
  const ParameterCount count = count_parameters(s.builder.finish(kNoIndex));
  CHECK(count.base == 10 * 4 + 5 * 5);
  CHECK(count.with_head == 10 * 4 + 3 * 4);
}

TEST_CASE("the number of elements saturates") {
  const std::int64_t big = std::int64_t{1} << 40;
  CHECK(num_elements({2, 3, 4}) == 24);
  CHECK(num_elements({big, big}) == std::numeric_limits<std::int64_t>::max());
}

TEST_CASE("a well-formed graph has no violation, a broken one names the op or tensor at fault") {
  Graph graph = small_graph();
  REQUIRE(find_violation(graph).empty());
  REQUIRE(graph.num_layers == 2);

  SECTION("order") {
    std::swap(graph.ops[OpId(1)].inputs[0], graph.ops[OpId(2)].inputs[0]);
    CHECK(find_violation(graph) == "op 1 linear (a): reads 'a.linear' before it is produced");
  }
  SECTION("two producers") {
    graph.ops[OpId(2)].outputs[0] = graph.ops[OpId(1)].outputs[0];
    CHECK(find_violation(graph) == "op 2 linear (b): writes 'a.linear', which another op produces");
  }
  SECTION("an index out of range") {
    graph.ops[OpId(2)].inputs[0] = TensorId(99);
    CHECK(find_violation(graph) == "op 2 linear (b): reads no tensor");
  }
  SECTION("layers out of order") {
    graph.ops[OpId(2)].layer = 7;
    CHECK(find_violation(graph) == "op 2 linear (b): layer 7 after layer 0");
  }
  SECTION("a layer after the head") {
    graph.ops[OpId(1)].layer = -1;
    graph.ops[OpId(0)].layer = 0;
    CHECK(find_violation(graph) == "op 2 linear (b): layer 1 after the head");
  }
  SECTION("an unread activation") {
    graph.ops[OpId(2)].inputs[0] = graph.ops[OpId(0)].outputs[0];
    CHECK(find_violation(graph) == "tensor 5 'a.linear': needs a gradient, but nothing reads it");
  }
  SECTION("no loss") {
    graph.loss = kNoIndex;
    CHECK(find_violation(graph) == "the graph has no loss");
  }
  SECTION("a loss that is not a scalar") {
    graph.loss = graph.ops[OpId(3)].outputs[0];
    CHECK(find_violation(graph) ==
          "loss 'head.linear' is not a scalar that depends on a parameter");
  }
  SECTION("a shape without elements") {
    graph.tensors[TensorId(2)].shape[1] = 0;
    CHECK(find_violation(graph) ==
          "tensor 2 'embedding.embedding': shape [2, 0, 4] has no elements");
  }
  SECTION("shapes that do not match") {
    graph.tensors[TensorId(5)].shape = {2, 3, 9};
    CHECK(find_violation(graph) ==
          "op 1 linear (a): weight [8, 4] does not take [2, 3, 4] to [2, 3, 9]");
  }
}

}  // namespace trainyard::graph_builder_test
