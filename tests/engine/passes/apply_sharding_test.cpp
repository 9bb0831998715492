// Megatron's layout of a GPT layer, read line by line: local shapes, specs and the collectives that
// keep them correct (Shoeybi et al. 2019, figures 3 and 4; Korthikanti et al. 2022, figure 5).
#include "engine/passes/apply_sharding.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/passes/plan_megatron.h"
#include "engine/sharding/spec_text.h"
#include "tests/support/studies.h"

namespace trainyard::apply_sharding_test {

namespace {

// B = 1, S = 8, D = 16, N = 4 heads of 4, F = 64, V = 40; two tensor-parallel ranks.
const std::string kGpt =
    "model: {family: gpt, layers: 2, hidden: 16, heads: 4, vocab: 40, seq_len: 8}\n"
    "cluster: dgx-a100-80g\n"
    "parallel: {tensor: 2, data: 2}\n"
    "training: {global_batch: 2, flash_attention: false, dropout: 0}\n";

std::string shape_text(const Shape& shape) {
  std::string text;
  for (const std::int64_t extent : shape)
    text += (text.empty() ? "" : ",") + std::to_string(extent);
  return "[" + text + "]";
}

const DeviceMesh kMesh = {"", {{"dp", 2}, {"tp", 2}}, {}};

std::string spec_text(const Graph& graph, const Tensor& t) {
  return to_text(graph.specs[t.spec], kMesh);
}

/// "linear <- x, fc1.weight -> fc1.linear[1,8,32] dp:S0,tp:S2" per op of the layer, names short.
std::string layer_text(const Graph& graph, std::int32_t layer, const std::string& prefix) {
  const auto name = [&](const Tensor& t) {
    return t.name.starts_with(prefix) ? t.name.substr(prefix.size()) : t.name;
  };
  const auto at = [&](TensorId id) -> const Tensor& { return graph.tensors[id]; };
  std::string text;
  for (const Op& op : graph.ops) {
    if (op.layer != layer) continue;
    text += std::string(to_string(op.kind)) + " " + name(at(op.inputs[0]));
    for (const TensorId id : op.outputs) {
      const Tensor& t = at(id);
      text += " -> " + name(t) + shape_text(t.shape) + " " + spec_text(graph, t);
    }
    text += "\n";
  }
  return text;
}

std::string parameter_text(const Graph& graph) {
  std::string text;
  for (const Parameter& p : graph.parameters) {
    if (p.name.find("layers.0") != std::string::npos) continue;
    const Tensor& t = graph.tensors[p.tensor];
    text += p.name + shape_text(t.shape) + " " + spec_text(graph, t) + " used " +
            to_text(graph.specs[p.used], kMesh) + "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("tensor parallelism splits a GPT layer by columns, then by rows, and sums twice") {
  const Graph graph = sharded_graph(prepare_text(kGpt));
  CHECK(layer_text(graph, 1, "decoder.layers.1.") ==
        "layer_norm decoder.layers.0.add:1 -> norm_1.layer_norm[1,8,16] [dp, R, R] -> "
        "norm_1.statistics[1,8,2] [dp, R, R]\n"
        "enter_tensor norm_1.layer_norm -> norm_1.layer_norm.entered[1,8,16] [dp, R, R] E(tp)\n"
        "linear norm_1.layer_norm.entered -> attention.qkv.linear[1,8,24] [dp, R, "
        "2x8:tp|2x8:tp|2x8:tp]\n"
        "split attention.qkv.linear -> attention.q[1,8,8] [dp, R, tp] -> attention.k[1,8,8] [dp, "
        "R, tp] -> attention.v[1,8,8] [dp, R, tp]\n"
        "scores attention.q -> attention.scores[1,2,8,8] [dp, tp, R, R]\n"
        "softmax attention.scores -> attention.probabilities[1,2,8,8] [dp, tp, R, R]\n"
        "context attention.probabilities -> attention.attention[1,8,8] [dp, R, tp]\n"
        "linear attention.attention -> attention.proj.linear.partial[1,8,16] [dp, R, R] P(tp)\n"
        "all_reduce attention.proj.linear.partial -> attention.proj.linear.sum[1,8,16] [dp, R, R]\n"
        "add_bias attention.proj.linear.sum -> attention.proj.linear[1,8,16] [dp, R, R]\n"
        "add decoder.layers.0.add:1 -> add[1,8,16] [dp, R, R]\n"
        "layer_norm add -> norm_2.layer_norm[1,8,16] [dp, R, R] -> norm_2.statistics[1,8,2] [dp, "
        "R, R]\n"
        "enter_tensor norm_2.layer_norm -> norm_2.layer_norm.entered[1,8,16] [dp, R, R] E(tp)\n"
        "linear norm_2.layer_norm.entered -> mlp.fc1.linear[1,8,32] [dp, R, tp]\n"
        "gelu mlp.fc1.linear -> mlp.gelu[1,8,32] [dp, R, tp]\n"
        "linear mlp.gelu -> mlp.fc2.linear.partial[1,8,16] [dp, R, R] P(tp)\n"
        "all_reduce mlp.fc2.linear.partial -> mlp.fc2.linear.sum[1,8,16] [dp, R, R]\n"
        "add_bias mlp.fc2.linear.sum -> mlp.fc2.linear[1,8,16] [dp, R, R]\n"
        "add add -> add:1[1,8,16] [dp, R, R]\n");
}

TEST_CASE("sequence parallelism keeps what lies between the products split by position") {
  const Graph graph = sharded_graph(prepare_text(kGpt, {"parallel.sequence_parallel=true"}));
  CHECK(layer_text(graph, 1, "decoder.layers.1.") ==
        "layer_norm decoder.layers.0.add:1 -> norm_1.layer_norm[1,4,16] [dp, tp, R] -> "
        "norm_1.statistics[1,4,2] [dp, tp, R]\n"
        "all_gather norm_1.layer_norm -> norm_1.layer_norm.gathered[1,8,16] [dp, R, R] E(tp)\n"
        "linear norm_1.layer_norm.gathered -> attention.qkv.linear[1,8,24] [dp, R, "
        "2x8:tp|2x8:tp|2x8:tp]\n"
        "split attention.qkv.linear -> attention.q[1,8,8] [dp, R, tp] -> attention.k[1,8,8] [dp, "
        "R, tp] -> attention.v[1,8,8] [dp, R, tp]\n"
        "scores attention.q -> attention.scores[1,2,8,8] [dp, tp, R, R]\n"
        "softmax attention.scores -> attention.probabilities[1,2,8,8] [dp, tp, R, R]\n"
        "context attention.probabilities -> attention.attention[1,8,8] [dp, R, tp]\n"
        "linear attention.attention -> attention.proj.linear.partial[1,8,16] [dp, R, R] P(tp)\n"
        "reduce_scatter attention.proj.linear.partial -> attention.proj.linear.sum[1,4,16] [dp, "
        "tp, R]\n"
        "add_bias attention.proj.linear.sum -> attention.proj.linear[1,4,16] [dp, tp, R]\n"
        "add decoder.layers.0.add:1 -> add[1,4,16] [dp, tp, R]\n"
        "layer_norm add -> norm_2.layer_norm[1,4,16] [dp, tp, R] -> norm_2.statistics[1,4,2] [dp, "
        "tp, R]\n"
        "all_gather norm_2.layer_norm -> norm_2.layer_norm.gathered[1,8,16] [dp, R, R] E(tp)\n"
        "linear norm_2.layer_norm.gathered -> mlp.fc1.linear[1,8,32] [dp, R, tp]\n"
        "gelu mlp.fc1.linear -> mlp.gelu[1,8,32] [dp, R, tp]\n"
        "linear mlp.gelu -> mlp.fc2.linear.partial[1,8,16] [dp, R, R] P(tp)\n"
        "reduce_scatter mlp.fc2.linear.partial -> mlp.fc2.linear.sum[1,4,16] [dp, tp, R]\n"
        "add_bias mlp.fc2.linear.sum -> mlp.fc2.linear[1,4,16] [dp, tp, R]\n"
        "add add -> add:1[1,4,16] [dp, tp, R]\n");
}

TEST_CASE(
    "column weights are split by rows of the matrix, row weights by columns, norms not at all") {
  const Graph graph = sharded_graph(prepare_text(kGpt, {"parallel.sequence_parallel=true"}));
  CHECK(parameter_text(graph) ==
        "embedding.tokens.weight[20,16] [tp, R] used [tp, R] E(dp)\n"
        "embedding.positions.weight[8,16] [R, R] used [R, R] E(dp tp)\n"
        "decoder.layers.1.norm_1.weight[16] [R] used [R] E(dp tp)\n"
        "decoder.layers.1.norm_1.bias[16] [R] used [R] E(dp tp)\n"
        "decoder.layers.1.attention.qkv.weight[24,16] [2x8:tp|2x8:tp|2x8:tp, R] used "
        "[2x8:tp|2x8:tp|2x8:tp, R] E(dp)\n"
        "decoder.layers.1.attention.qkv.bias[24] [2x8:tp|2x8:tp|2x8:tp] used "
        "[2x8:tp|2x8:tp|2x8:tp] E(dp)\n"
        "decoder.layers.1.attention.proj.weight[16,8] [R, tp] used [R, tp] E(dp)\n"
        "decoder.layers.1.attention.proj.bias[16] [R] used [R] E(dp tp)\n"
        "decoder.layers.1.norm_2.weight[16] [R] used [R] E(dp tp)\n"
        "decoder.layers.1.norm_2.bias[16] [R] used [R] E(dp tp)\n"
        "decoder.layers.1.mlp.fc1.weight[32,16] [tp, R] used [tp, R] E(dp)\n"
        "decoder.layers.1.mlp.fc1.bias[32] [tp] used [tp] E(dp)\n"
        "decoder.layers.1.mlp.fc2.weight[16,32] [R, tp] used [R, tp] E(dp)\n"
        "decoder.layers.1.mlp.fc2.bias[16] [R] used [R] E(dp tp)\n"
        "decoder.final_norm.weight[16] [R] used [R] E(dp tp)\n"
        "decoder.final_norm.bias[16] [R] used [R] E(dp tp)\n");
}

TEST_CASE(
    "the loss works on logit shards: row maxima, then two sums, are reduced; logits never are") {
  const Graph graph = sharded_graph(prepare_text(kGpt));
  std::string text = layer_text(graph, -1, "");
  text = text.substr(text.find("layer_norm"));  // behind the embedding
  CHECK(text ==
        "layer_norm decoder.layers.1.add:1 -> decoder.final_norm.layer_norm[1,8,16] [dp, R, R] -> "
        "decoder.final_norm.statistics[1,8,2] [dp, R, R]\n"
        "enter_tensor decoder.final_norm.layer_norm -> "
        "decoder.final_norm.layer_norm.entered[1,8,16] [dp, R, R] E(tp)\n"
        "linear decoder.final_norm.layer_norm.entered -> lm_head.linear[1,8,20] [dp, R, tp]\n"
        "cross_entropy_max lm_head.linear -> lm_head.linear.max[1,8] [dp, R] Pmax(tp)\n"
        "all_reduce lm_head.linear.max -> lm_head.linear.max.all[1,8] [dp, R]\n"
        "cross_entropy_sum lm_head.linear -> lm_head.linear.sums[2,1,8] [R, dp, R] P(tp)\n"
        "all_reduce lm_head.linear.sums -> lm_head.linear.sums.all[2,1,8] [R, dp, R]\n"
        "cross_entropy lm_head.linear -> loss.cross_entropy[1] [R] P(dp) -> "
        "loss.log_probabilities[1,8,20] [dp, R, tp]\n");
}

TEST_CASE("on one tensor-parallel rank nothing is inserted") {
  const Prepared prepared =
      prepare_text(kGpt, {"parallel.tensor=1", "parallel.sequence_parallel=true"});
  const Graph graph = sharded_graph(prepared);
  for (const Op& op : graph.ops) {
    CHECK_FALSE(is_communication(op.kind));
    CHECK(op.kind != OpKind::kEnterTensor);
  }
}

TEST_CASE("what a degree does not divide is a reason, with the tensor and its size") {
  // The study's checks say it at its line first; the pass does not rely on them.
  const Prepared prepared = prepare_text(kGpt);
  MegatronPlan plan;
  plan.mesh.axes = {{"tp", 3}};
  plan.tensor = {0};
  const auto answer = plan_megatron(prepared.model, plan);
  REQUIRE(std::holds_alternative<Infeasible>(answer));
  CHECK(std::get<Infeasible>(answer).reason ==
        "embedding.tokens.weight: tensor parallelism over 3 ranks does not divide its dim 0 of 40");
  CHECK(std::get<Infeasible>(answer).key == "parallel.tensor");
}

}  // namespace trainyard::apply_sharding_test
