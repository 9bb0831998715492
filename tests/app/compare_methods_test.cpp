// simulate --compare-tensor-methods: which methods it simulates, and what is said where none can
// run.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/child_process.h"
#include "tests/support/scratch_folder.h"

namespace trainyard {

TEST_CASE("every method is simulated on as many ranks, with the same global batch") {
  const ScratchFolder folder;
  write_text(folder / "study.yaml",
             "model: {family: gpt, layers: 2, hidden: 64, heads: 8, vocab: 64, seq_len: 32}\n"
             "cluster: {preset: dgx-a100-80g, nodes: 1}\n"
             "parallel: {tensor: 4, data: 2, tensor_method: {name: auto, table: {'*.mlp.*': {dim: "
             "0, collective: all_gather}}}}\n"
             "training: {global_batch: 16, microbatch: 2}\n");
  ChildProcess process(
      folder, {TRAINYARD, "simulate", folder / "study.yaml", "--compare-tensor-methods", "--json"},
      folder / "answer.json");
  CHECK(process.end() == 0);
  const auto answer = nlohmann::json::parse(read_text(folder / "answer.json"));
  std::vector<std::string> names;
  for (const auto& method : answer["methods"]) {
    names.push_back(method["method"]);
    CHECK((!method.contains("refused") || method["refused"].is_null()));
  }
  CHECK(names == std::vector<std::string>{"megatron", "auto", "atp", "atp", "smp memory",
                                          "smp speed", "summa-2d", "map"});
}

TEST_CASE("where no method can run, each says why, behind the key that is to blame") {
  const ScratchFolder folder;
  // The optimizer's state of a GPT-3 in a host of 1 GB.
  write_text(folder / "study.yaml",
             "model: {family: gpt, layers: 96, hidden: 12288, heads: 96, vocab: 50000, seq_len: "
             "2048}\n"
             "cluster: {preset: dgx-a100-80g, nodes: 1, host: {capacity: 1 GB}}\n"
             "parallel: {tensor: 4, data: 2, zero: {stage: 1, offload: optimizer}}\n"
             "training: {global_batch: 32, microbatch: 2}\n");
  const auto compare = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {TRAINYARD, "simulate", folder / "study.yaml",
                                      "--compare-tensor-methods", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    ChildProcess process(folder, words, folder / "answer.json");
    CHECK(process.end() == 4);
    CHECK_THAT(process.err(), Catch::Contains("none of the 7 methods can run"));
    return read_text(folder / "answer.json");
  };
  const auto plain = nlohmann::json::parse(compare({}));
  REQUIRE(plain["methods"].size() == 7);
  for (const auto& method : plain["methods"]) {
    CHECK_THAT(method["refused"].get<std::string>(),
               Catch::StartsWith("cluster.host.capacity: what is offloaded needs"));
  }
  // As all answers: who wrote it is said where it is written.
  CHECK_FALSE(plain.contains("written_by"));
  const std::string written = compare({"--out", folder / "out"});
  CHECK(written == read_text(folder / "out/tensor_methods.json"));
  CHECK(nlohmann::json::parse(written)["written_by"]["command"] ==
        "simulate --compare-tensor-methods");
}

}  // namespace trainyard
