// simulate --compare-tensor-methods: what is said where no method can run.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/child_process.h"
#include "tests/support/scratch_folder.h"

namespace trainyard {

TEST_CASE("where no method can run, each says why, behind the key that is to blame") {
  const ScratchFolder folder;
  // The optimizer's state of a GPT-3 in a host of 1 GB.
  write_text(folder / "study.yaml",
             "model: {family: gpt, layers: 96, hidden: 12288, heads: 96, vocab: 50000, seq_len: "
             "2048}\n"
             "cluster: {preset: dgx-a100-80g, nodes: 1, host: {capacity: 1 GB}}\n"
             "parallel: {tensor: 4, data: 2, zero: {stage: 1, offload: optimizer}}\n"
             "training: {global_batch: 32, microbatch: 1}\n");
  const auto compare = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {TRAINYARD, "simulate", folder / "study.yaml",
                                      "--compare-tensor-methods", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    ChildProcess process(folder, words, folder / "answer.json");
    CHECK(process.end() == 4);
    CHECK_THAT(process.err(), Catch::Contains("none of the 3 methods can run"));
    return read_text(folder / "answer.json");
  };
  const auto plain = nlohmann::json::parse(compare({}));
  REQUIRE(plain["methods"].size() == 3);
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
