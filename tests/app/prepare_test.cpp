// From a study's file to a checked study: what the command line's own words do to it.
#include "app/prepare.h"

#include <catch2/catch.hpp>

#include "engine/base/error.h"
#include "engine/plan/graph_source.h"
#include "study/study_reader.h"
#include "study/study_writer.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/source_root.h"
#include "tests/support/studies.h"

namespace trainyard::prepare_test {

TEST_CASE("the option --fidelity is called so where it is refused") {
  const std::string study = source_root() + "/configs/gpt3-175b-dgx-a100.yaml";
  CHECK_THROWS_WITH(prepare(study, {}, "exact"),
                    "--fidelity exact: fidelity: unknown fidelity 'exact'; this version has "
                    "analytic, fluid and step");
  CHECK(prepare(study, {}, "analytic").study.fidelity == "analytic");
}

TEST_CASE("a file that a study names and that is not there is missed at the study's line") {
  const std::string study = source_root() + "/configs/gpt3-175b-dgx-a100.yaml";
  CHECK_THROWS_WITH(
      prepare(study, {"model=none.json"}),
      Catch::StartsWith(study + ":") &&
          Catch::Contains(": model: " + source_root() + "/configs/none.json: cannot "));
  CHECK_THROWS_WITH(
      prepare(study, {"cluster=none.yaml"}),
      Catch::StartsWith(study + ":") &&
          Catch::Contains(": cluster: " + source_root() + "/configs/none.yaml: cannot "));
}

TEST_CASE("a config.json's attention window is the study's, and may be shorter than a sequence") {
  const ScratchFolder folder;
  write_text(
      folder / "config.json",
      R"({"model_type": "mistral", "num_hidden_layers": 2, "sliding_window": 4096, "max_position_embeddings": 32768})");
  const auto study = [&](const std::string& model) {
    write_text(folder / "study.yaml",
               "cluster: {preset: local, ranks: 1}\ntraining: {global_batch: 1}\nmodel: " + model);
    return folder / "study.yaml";
  };
  const Study taken = prepare(study("config.json"), {}).study;
  CHECK(taken.model.attention_window == 4096);
  CHECK(taken.model.seq_len == 32768);
  write_text(folder / "resolved.yaml", resolved_study_text(taken));
  CHECK(prepare(folder / "resolved.yaml", {}).study.model == taken.model);
}

TEST_CASE("all numbers of decoders stay in the resolved study") {
  const ScratchFolder folder;
  const std::string kConfigs[] = {
      R"({"model_type": "gemma2", "num_hidden_layers": 4, "sliding_window": 64,
          "query_pre_attn_scalar": 144})",
      R"({"model_type": "qwen3", "num_hidden_layers": 2, "rope_scaling":
          {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 3,
           "original_max_position_embeddings": 512}})",
      R"({"model_type": "gpt_neox", "num_hidden_layers": 2})",
      R"({"model_type": "falcon", "num_hidden_layers": 2, "alibi": true})",
      R"({"model_type": "opt", "num_hidden_layers": 2})",
      R"({"model_type": "mpt", "n_layers": 2})",
  };
  for (const std::string& config : kConfigs) {
    CAPTURE(config);
    write_text(folder / "config.json", config);
    write_text(folder / "study.yaml",
               "cluster: {preset: local, ranks: 1}\ntraining: {global_batch: 1, dropout: 0}\n"
               "model: config.json\n");
    const Study study = prepare(folder / "study.yaml", {}).study;
    write_text(folder / "resolved.yaml", resolved_study_text(study));
    CHECK(prepare(folder / "resolved.yaml", {}).study.model == study.model);
  }
}

TEST_CASE("a gpt without a table of positions has no dropout unless it is said") {
  const auto dropout = [](const std::string& keys) {
    return prepare_text(
               "cluster: {preset: local, ranks: 1}\ntraining: {global_batch: 1}\n"
               "model: {family: gpt, layers: 1, hidden: 8, heads: 2, vocab: 9, "
               "seq_len: 8" +
                   keys + "}\n",
               {})
        .study.training.dropout;
  };
  CHECK(dropout("") == 0.1);
  CHECK(dropout(", position_offset: 2") == 0.1);
  CHECK(dropout(", positions: rotary") == 0);
  CHECK(dropout(", positions: alibi") == 0);
}

TEST_CASE("how GPT-2's config.json scales its scores stays in the resolved study") {
  const ScratchFolder folder;
  write_text(
      folder / "config.json",
      R"({"model_type": "gpt2", "n_layer": 2, "scale_attn_by_inverse_layer_idx": true, "scale_attn_weights": false})");
  write_text(
      folder / "study.yaml",
      "cluster: {preset: local, ranks: 1}\ntraining: {global_batch: 1}\nmodel: config.json\n");
  const Study study = prepare(folder / "study.yaml", {}).study;
  CHECK_FALSE(study.model.scaled_attention);
  CHECK(study.model.layer_scaled_attention);
  write_text(folder / "resolved.yaml", resolved_study_text(study));
  CHECK(prepare(folder / "resolved.yaml", {}).study.model == study.model);
}

TEST_CASE("this machine is found however it is spelt, with the keys of its own") {
  const Prepared here = prepare_text(
      "model: {family: gpt, layers: 2, hidden: 64, heads: 2, vocab: 100, seq_len: 32}\n"
      "cluster: {preset: LOCAL, ranks: 2}\nparallel: {data: 2}\ntraining: {global_batch: 8}\n");
  CHECK(here.study.cluster.name == "local");
  CHECK(here.study.cluster.num_devices == 2);
}

TEST_CASE(
    "an exported model whose ops depend on the number of samples has microbatches of one size") {
  // What is written for each sample is there already where there is one: the expansion is left out.
  const std::string study = "model: {onnx: " TRAINYARD_SOURCE_DIR
                            "/tests/golden/onnx/writes-script.onnx, loss: cross_entropy}\n"
                            "cluster: {preset: dgx-a100-80g, nodes: 1}\nparallel: {data: 2}\n"
                            "training: {global_batch: 6, microbatch: ";
  CHECK_THROWS_WITH(prepare_text(study + "[2, 1]}\n"),
                    Catch::Contains("4:41: training.microbatch: microbatches differ in size, and "
                                    "with 1 sample on a replica the model has other operations"));
  CHECK_NOTHROW(prepare_text(study + "1}\n"));
}

TEST_CASE("an exported model with the same buffers is the same one for every study of a sweep") {
  std::vector<std::string> warnings;
  const StudyResolvers resolvers = make_resolvers(TRAINYARD_SOURCE_DIR, warnings);
  const auto source = [&](const std::string& buffers) {
    const std::string study = "model: {onnx: " TRAINYARD_SOURCE_DIR
                              "/tests/golden/onnx/writes-script.onnx, loss: cross_entropy, "
                              "buffers: [" +
                              buffers +
                              "]}\ncluster: {preset: dgx-a100-80g, nodes: 1}\nparallel: {data: 1}\n"
                              "training: {global_batch: 1}\n";
    return graph_source(read_study_text(study, "study.yaml", {}, resolvers));
  };
  // What a sweep compares to keep a graph and its segments.
  const GraphSource first = source("'*.bias'");
  CHECK(first == source("'*.bias'"));
  CHECK_FALSE(first == source("'*.weight'"));
}

}  // namespace trainyard::prepare_test
