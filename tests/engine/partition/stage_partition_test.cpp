// Which layers a stage gets, and what is inserted where a value crosses stages.
#include "engine/partition/stage_partition.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/support/studies.h"

namespace trainyard::stage_partition_test {

namespace {

using Ranges = std::vector<std::int64_t>;

Ranges ranges(std::int64_t layers, int stages, const PartitionConfig& partition) {
  return std::get<Ranges>(layer_ranges(layers, stages, partition));
}

std::string refusal(std::int64_t layers, int stages, const PartitionConfig& partition) {
  const auto refused = std::get<Infeasible>(layer_ranges(layers, stages, partition));
  CHECK(refused.key == "partition");
  return refused.reason;
}

PartitionConfig uniform(bool ends, bool uneven) {
  PartitionConfig partition;
  partition.ends = ends;
  partition.uneven = uneven;
  return partition;
}

PartitionConfig cuts(const std::vector<std::int64_t>& first_layers) {
  PartitionConfig partition;
  partition.method = "cuts";
  for (const std::int64_t layer : first_layers) partition.cuts.push_back({layer, ""});
  return partition;
}

/// The ops that connect stages: "1: send x@1 <- x" (stage, kind, what it writes, what it reads).
std::string connections(const StagedGraph& staged) {
  std::string text;
  const auto name = [&](TensorId id) { return staged.graph.tensors[id].name; };
  for (const OpId i : staged.graph.ops.keys()) {
    const Op& op = staged.graph.ops[i];
    const bool flat = op.attrs->dim < 0;
    const bool connects = op.kind == OpKind::kLoad || op.kind == OpKind::kSend ||
                          (flat && (op.kind == OpKind::kSlice || op.kind == OpKind::kAllGather));
    if (!connects) continue;
    text += std::to_string(staged.stage[i]) + ": " + std::string(to_string(op.kind)) + " " +
            name(op.outputs[0]);
    if (!op.inputs.empty()) text += " <- " + name(op.inputs[0]);
    text += "\n";
  }
  return text;
}

std::string gpt(int layers) {
  return "model: {family: gpt, layers: " + std::to_string(layers) +
         ", hidden: 16, heads: 4, vocab: 40, seq_len: 8}\n"
         "cluster: dgx-a100-80g\nparallel: {data: 1}\ntraining: {global_batch: 4}\n";
}

const std::string kT5 =
    "model: {family: t5, layers: 2, hidden: 16, heads: 4, vocab: 40, seq_len: 8}\n"
    "cluster: dgx-a100-80g\nparallel: {data: 1}\ntraining: {global_batch: 4}\n";

}  // namespace

TEST_CASE("uniform stages get the same number of layers") {
  CHECK(ranges(12, 4, {}) == Ranges{0, 3, 6, 9, 12});
  CHECK(ranges(12, 1, {}) == Ranges{0, 12});
}

TEST_CASE("with ends, embedding and head count as one layer each") {
  // 22 layers + 2 = 24 units on 4 stages, 6 each: 5 layers beside each end.
  CHECK(ranges(22, 4, uniform(true, false)) == Ranges{0, 5, 11, 17, 22});
  // 2 + 2 units on 4 stages: the ends have a stage to themselves.
  CHECK(ranges(2, 4, uniform(true, false)) == Ranges{0, 0, 1, 2, 2});
  CHECK(ranges(5, 1, uniform(true, false)) == Ranges{0, 5});
}

TEST_CASE("uneven stages take the ceiling, the last what is left") {
  CHECK(ranges(10, 4, uniform(false, true)) == Ranges{0, 3, 6, 9, 10});
  CHECK(ranges(10, 4, uniform(true, true)) == Ranges{0, 2, 5, 8, 10});
}

TEST_CASE("cuts are the first layers of stages 1, 2, ...") {
  CHECK(ranges(10, 3, cuts({1, 9})) == Ranges{0, 1, 9, 10});
}

TEST_CASE("a stage without a layer, or a wrong number of stages, is a reason") {
  CHECK(refusal(3, 4, uniform(false, true)) == "stage 3 of 4 gets no layer of the model's 3");
  CHECK(refusal(8, 5, uniform(false, true)) == "stage 4 of 5 gets no layer of the model's 8");
  CHECK(refusal(8, 4, cuts({2, 4})) == "the partition has 3 stages, the pipeline 4");
}

TEST_CASE("every op of a layer is on the layer's stage, the ends on the first and the last") {
  const auto [pipeline, partition] =
      GENERATE(table<int, std::string>({{1, "uniform"},
                                        {4, "uniform"},
                                        {5, "{method: uniform, ends: true}"},
                                        {3, "{method: uniform, uneven: true}"},
                                        {3, "[1, 6]"}}));
  CAPTURE(pipeline, partition);
  const Prepared prepared = prepare_text(
      gpt(8), {"parallel.pipeline=" + std::to_string(pipeline), "partition=" + partition});
  const StagedGraph staged = staged_graph(prepared);
  const Ranges first = ranges(8, pipeline, prepared.study.partition);
  bool in_layers = false;
  int checked = 0;
  for (const OpId i : staged.graph.ops.keys()) {
    const Op& op = staged.graph.ops[i];
    if (op.kind == OpKind::kSend) continue;  // on the receiving stage
    const std::int32_t stage = staged.stage[i];
    in_layers = in_layers || op.layer >= 0;
    if (op.layer < 0) {
      CHECK(stage == (in_layers ? pipeline - 1 : 0));
      continue;
    }
    ++checked;
    CHECK(op.layer >= first[static_cast<std::size_t>(stage)]);
    CHECK(op.layer < first[static_cast<std::size_t>(stage) + 1]);
  }
  CHECK(checked > 80);
}

TEST_CASE("a GPT's stages pass on one tensor; data is loaded where it is read") {
  CHECK(connections(staged_graph(prepare_text(gpt(3), {"parallel.pipeline=3"}))) ==
        "0: load tokens@0\n"
        "0: load positions@0\n"
        "1: send decoder.layers.0.add:1@1 <- decoder.layers.0.add:1\n"
        "2: send decoder.layers.1.add:1@2 <- decoder.layers.1.add:1\n"
        "2: load labels@2\n");
}

TEST_CASE("under tensor parallelism a slice travels and is gathered where it is read") {
  const Prepared prepared = prepare_text(gpt(2), {"parallel.pipeline=2", "parallel.tensor=2"});
  const StagedGraph staged = staged_graph(prepared);
  CHECK(connections(staged) ==
        "0: load tokens@0\n"
        "0: load positions@0\n"
        "0: slice decoder.layers.0.add:1.slice <- decoder.layers.0.add:1\n"
        "1: send decoder.layers.0.add:1.slice@1 <- decoder.layers.0.add:1.slice\n"
        "1: all_gather decoder.layers.0.add:1@1 <- decoder.layers.0.add:1.slice@1\n"
        "1: load labels@1\n");
  for (const Tensor& t : staged.graph.tensors) {
    // 1 x 8 x 16 elements in two flat halves; the slice is a view, not a copy.
    if (t.name == "decoder.layers.0.add:1.slice") {
      CHECK(t.shape == Shape{64});
      CHECK(t.alias != kNoIndex);
    }
    if (t.name == "decoder.layers.0.add:1.slice@1") CHECK(t.shape == Shape{64});
    if (t.name == "decoder.layers.0.add:1@1") CHECK(t.shape == Shape{1, 8, 16});
  }
}

TEST_CASE("scatter_gather off, or sequence shards, travel as they are") {
  const std::string expected =
      "0: load tokens@0\n"
      "0: load positions@0\n"
      "1: send decoder.layers.0.add:1@1 <- decoder.layers.0.add:1\n"
      "1: load labels@1\n";
  CHECK(connections(staged_graph(prepare_text(gpt(2), {"parallel.pipeline=2", "parallel.tensor=2",
                                                       "parallel.scatter_gather=false"}))) ==
        expected);
  CHECK(connections(staged_graph(prepare_text(gpt(2), {"parallel.pipeline=2", "parallel.tensor=2",
                                                       "parallel.sequence_parallel=true"}))) ==
        expected);
}

TEST_CASE("T5's encoder output is relayed through the decoder's stages, its mask loaded on each") {
  // Layers 0 and 1 are the encoder's; 2 and 3, the decoder's, both read its output and the padding
  // mask, and share one relative bias that layer 2 computes.
  CHECK(connections(staged_graph(prepare_text(kT5, {"parallel.pipeline=4"}))) ==
        "0: load tokens@0\n"
        "0: load mask@0\n"
        "1: send encoder.layers.0.add:1@1 <- encoder.layers.0.add:1\n"
        "1: send encoder.layers.0.self_attention.relative_bias.relative_bias@1 <- "
        "encoder.layers.0.self_attention.relative_bias.relative_bias\n"
        "1: load mask@1\n"
        "2: load decoder_tokens@2\n"
        "2: send encoder.dropout@2 <- encoder.dropout\n"
        "2: load mask@2\n"
        "3: send decoder.layers.0.add:2@3 <- decoder.layers.0.add:2\n"
        "3: send decoder.layers.0.self_attention.relative_bias.relative_bias@3 <- "
        "decoder.layers.0.self_attention.relative_bias.relative_bias\n"
        "3: send encoder.dropout@3 <- encoder.dropout@2\n"
        "3: load mask@3\n"
        "3: load labels@3\n");
}

}  // namespace trainyard::stage_partition_test
