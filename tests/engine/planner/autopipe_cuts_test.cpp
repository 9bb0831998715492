// Merak's subgraphs and AutoPipe on models.
#include "engine/planner/autopipe_cuts.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/partition/stage_partition.h"
#include "engine/passes/one_stage_graph.h"
#include "tests/support/studies.h"

namespace trainyard::autopipe_cuts_test {

namespace {

std::string study_of(const std::string& model) {
  return "model: " + model +
         "\ncluster: dgx-a100-80g\nparallel: {pipeline: 4}\ntraining: {global_batch: 16}\n";
}

const std::string kGpt =
    "{family: gpt, layers: 12, hidden: 1024, heads: 16, seq_len: 1024, vocab: 51200}";

}  // namespace

TEST_CASE("by layer, subgraphs are the layers and what is in front of and behind them") {
  const Prepared prepared =
      prepare_text(study_of(kGpt), {"partition={method: autopipe, shards: layer}"});
  const Graph graph = sharded_graph(prepared);
  for (const StageCut& cut : prepared.study.partition.cuts) {
    const OpId op = op_of_cut(graph, cut);
    CHECK(graph.ops[op].layer != graph.ops[op - 1].layer);
  }
  CHECK(prepared.study.origins.at("partition").note.starts_with("autopipe: 14 subgraphs"));
}

TEST_CASE("the farthest dependencies leave one value to pass each cut of a GPT") {
  const Prepared prepared = prepare_text(study_of(kGpt), {"partition=autopipe"});
  const StagedGraph staged = staged_graph(prepared);
  int sends = 0;
  for (const Op& op : staged.graph.ops) sends += op.kind == OpKind::kSend;
  CHECK(sends == 3);
}

TEST_CASE("stages of other models are cut, too, and have a Program") {
  for (const std::string shards : {"farthest", "layer"}) {
    for (const std::string& model :
         {std::string("t5-3b"), std::string("resnet50"), std::string("bert-large")}) {
      CAPTURE(shards, model);
      const Prepared prepared =
          prepare_text(study_of(model), {"partition={method: autopipe, shards: " + shards + "}"});
      CHECK(prepared.study.partition.cuts.size() == 3);
      CHECK(compiled_program(prepared).num_microbatches > 0);
    }
  }
}

TEST_CASE("fewer subgraphs than stages are refused") {
  CHECK_THROWS_AS(prepare_text(study_of(kGpt), {"partition={method: autopipe, shards: layer}",
                                                "model.layers=3", "parallel.pipeline=8"}),
                  ConfigError);
}

}  // namespace trainyard::autopipe_cuts_test
