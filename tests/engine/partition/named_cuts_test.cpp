// Stages that begin in the midst of layers: at a module, or at an op.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/partition/stage_partition.h"
#include "tests/support/source_root.h"
#include "tests/support/studies.h"

namespace trainyard::named_cuts_test {

namespace {

std::string study_of(const std::string& model, const std::string& sequences = "1") {
  return "model: " + model + "\ncluster: dgx-a100-80g\nparallel: {data: 1}\ntraining: " +
         "{global_batch: 8, microbatch: " + sequences + "}\n";
}

const std::string kGpt = "{family: gpt, layers: 4, hidden: 16, heads: 4, vocab: 40, seq_len: 8}";

StageCut at(const std::string& name) { return {0, name}; }

/// What op_of_cut() finds, as what it writes.
std::string written_at(const Graph& graph, const StageCut& cut) {
  const OpId op = op_of_cut(graph, cut);
  return op == kNoIndex ? "none" : graph.tensors[graph.ops[op].outputs.front()].name;
}

std::string refusal(const std::string& cuts, const std::string& more = "parallel.pipeline=2") {
  try {
    prepare_text(study_of(kGpt), {"partition=" + cuts, more});
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("a cut is at the first op of a layer, of a module, or at the op that writes a tensor") {
  const Graph graph = sharded_graph(prepare_text(study_of(kGpt)));
  CHECK(written_at(graph, {2, ""}).starts_with("decoder.layers.2."));
  CHECK(op_of_cut(graph, {2, ""}) == op_of_cut(graph, at("decoder.layers.2")));
  CHECK(written_at(graph, at("decoder.layers.1.mlp")).starts_with("decoder.layers.1.mlp.fc1"));
  CHECK(written_at(graph, at("decoder.layers.0.add:1")) == "decoder.layers.0.add:1");
  // A part of a path is no module.
  CHECK(written_at(graph, at("decoder.layers.1.ml")) == "none");
}

TEST_CASE("every op that writes something can be cut at, and is found again") {
  for (const std::string& study :
       {study_of(kGpt),
        study_of("{family: t5, layers: 2, hidden: 16, heads: 4, vocab: 40, seq_len: 8}"),
        study_of("{family: llama, layers: 2, hidden: 16, heads: 4, vocab: 40, seq_len: 8}"),
        study_of("{family: bert, layers: 2, hidden: 16, heads: 4, vocab: 40, seq_len: 8}"),
        study_of("{family: resnet, depth: 50}"), study_of("{family: unet, hidden: 8, depth: 2}"),
        study_of("{family: densenet, depth: 121}")}) {
    const Graph graph = sharded_graph(prepare_text(study));
    int missed = 0;
    for (const OpId i : graph.ops.keys()) {
      if (graph.ops[i].outputs.empty()) continue;
      const auto cut = cut_at(graph, i);
      missed += !cut || op_of_cut(graph, *cut) != i;
    }
    CAPTURE(study);
    CHECK(missed == 0);
  }
}

TEST_CASE("stages have the ops between their cuts, and pass on what crosses") {
  const Prepared prepared = prepare_text(
      study_of(kGpt),
      {"parallel.pipeline=3", "partition=[decoder.layers.1.mlp, decoder.layers.3.add]"});
  const StagedGraph staged = staged_graph(prepared);
  CHECK(find_staged_violation(staged).empty());
  std::string sent;
  std::int32_t before = 0;
  for (const OpId i : staged.graph.ops.keys()) {
    const Op& op = staged.graph.ops[i];
    CHECK(staged.stage[i] >= before);
    before = staged.stage[i];
    if (op.kind == OpKind::kSend)
      sent +=
          std::to_string(staged.stage[i]) + " " + staged.graph.tensors[op.inputs[0]].name + "\n";
  }
  // In front of an MLP: what it reads, and the sum that its result is added to. In front of the
  // attention's add: the layer's input and the attention's result.
  CHECK(sent ==
        "1 decoder.layers.1.norm_2.layer_norm\n"
        "1 decoder.layers.1.add\n"
        "2 decoder.layers.2.add:1\n"
        "2 decoder.layers.3.attention.dropout\n");
}

TEST_CASE("names that nothing has, and cuts that do not ascend, are refused at the cut") {
  CHECK(refusal("[decoder.layers.1.mpl]")
            .find("partition[0]: no module and no op is named 'decoder.layers.1.mpl' (did you mean "
                  "decoder.layers.1.mlp") != std::string::npos);
  CHECK(refusal("[decoder.layers.2.mlp, 2]", "parallel.pipeline=3")
            .find("partition[1]: layer 2 begins no later than the stage before it") !=
        std::string::npos);
  CHECK(refusal("[embedding]").find("begins no later than the model") != std::string::npos);
  CHECK(refusal("[decoder.layers.2.mlp, 9]", "parallel.pipeline=3")
            .find("layers count from 0 to 3") != std::string::npos);
  CHECK(refusal("[decoder.layers.1.mlp, decoder.layers.2.mlp]").find("2 cuts make 3 stages") !=
        std::string::npos);
}

TEST_CASE("no stage begins within an attention, or is without a parameter of its own") {
  const auto reason = [](const std::string& cuts, const std::string& more = "model.layers=4") {
    const Prepared prepared =
        prepare_text(study_of(kGpt), {"parallel.pipeline=2", "partition=" + cuts, more});
    PassLog log;
    const auto compiled = compile(prepared.model, prepared.study, prepared.software, log);
    const auto* refused = std::get_if<Infeasible>(&compiled);
    return refused == nullptr ? "" : refused->reason;
  };
  CHECK(reason("[decoder.layers.1.mlp]") == "");
  for (const std::string flash : {"true", "false"}) {
    CHECK(reason("[decoder.layers.1.attention.attention]", "training.flash_attention=" + flash)
              .find("within an attention") != std::string::npos);
  }
  // The loss has none, and the tied head's is the embedding's.
  CHECK(reason("[loss]") == "stage 1 would have no parameter of its own");
  CHECK(reason("[lm_head]") == "stage 1 would have no parameter of its own");
}

TEST_CASE("a method refuses what says how another one divides") {
  const auto names = [](const std::string& partition, const std::string& key) {
    CAPTURE(partition, key);
    CHECK(refusal(partition).find("partition." + key + ": ") != std::string::npos);
  };
  names("{method: cost, ends: layers}", "ends");
  names("{method: parameters, uneven: true}", "uneven");
  names("{method: uniform, between: ops}", "between");
  names("{method: search, between: ops}", "between");
  names("{cuts: [1], between: ops}", "between");
  names("{method: cost, budget: 3 s}", "budget");
  names("{method: search, budget: 1 ms}", "budget");
  names("{method: cost, shards: layer}", "shards");
  names("{method: autopipe, shards: layer, bound: 9}", "bound");
  names("{method: cost, between: blocks}", "between");
}

TEST_CASE("halves of a microbatch have no stages that begin within layers") {
  for (const std::string partition :
       {"[decoder.layers.1.mlp]", "{method: cost, between: ops}", "search"}) {
    try {
      prepare_text(study_of(kGpt),
                   {"parallel.pipeline=2", "parallel.tensor=2", "training.microbatch=2",
                    "parallel.tensor_overlap=block", "partition=" + partition});
      FAIL("it was taken: " << partition);
    } catch (const ConfigError& error) {
      CHECK(error.key_path() == "parallel.tensor_overlap");
    }
  }
}

TEST_CASE("floored stages have one layer more from the first on") {
  PartitionConfig partition;
  partition.method = "uniform-floor";
  const auto ranges = [&](std::int64_t layers, int stages) {
    return std::get<std::vector<std::int64_t>>(layer_ranges(layers, stages, partition));
  };
  CHECK(ranges(98, 4) == std::vector<std::int64_t>{0, 25, 50, 74, 98});
  CHECK(ranges(12, 4) == std::vector<std::int64_t>{0, 3, 6, 9, 12});
}

TEST_CASE("a model whose file names no layers is divided unevenly where asked") {
  // How many layers it has its graph says, behind the checks of the study.
  const std::string file = source_root() + "/tests/golden/onnx/recommender-dynamo.onnx";
  const std::string study =
      "model: {onnx: " + file +
      ", loss: binary_cross_entropy}\ncluster: {preset: local, ranks: 2}\nparallel: {pipeline: 2}\n"
      "training: {global_batch: 8, microbatch: 2, precision: fp32}\n"
      "partition: {method: uniform, uneven: true}\n";
  CHECK(compiled_program(prepare_text(study)).mesh.num_ranks() == 2);
}

}  // namespace trainyard::named_cuts_test
