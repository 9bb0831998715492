// simulate --compare-tensor-methods: which methods it simulates, and what is said where none can
// run.
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/support/scratch_folder.h"

namespace trainyard::compare_methods_test {

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

namespace {

/// By name: "refused" or "", and the microbatch where it is not the study's.
std::map<std::string, std::string> compared(const std::string& study, int exit = 0) {
  const ScratchFolder folder;
  write_text(folder / "study.yaml", study);
  ChildProcess process(
      folder, {TRAINYARD, "simulate", folder / "study.yaml", "--compare-tensor-methods", "--json"},
      folder / "answer.json");
  CHECK(process.end() == exit);
  std::map<std::string, std::string> out;
  if (exit != 0) return out;
  const auto answer = nlohmann::json::parse(read_text(folder / "answer.json"));
  for (const auto& row : answer["methods"]) {
    std::string& text = out[row["method"]];
    if (!row["refused"].is_null()) text = row["refused"];
    if (!row["microbatch"].is_null())
      text = "microbatch " + std::to_string(row["microbatch"].get<int>());
  }
  return out;
}

const std::string kMachine = "cluster: {preset: dgx-a100-80g, nodes: 1}\n";
const std::string kGpt =
    "model: {family: gpt, layers: 2, hidden: 64, heads: 8, vocab: 64, seq_len: 32}\n" + kMachine;

}  // namespace

TEST_CASE("methods are compared where the study's own cannot split the model") {
  const auto rows =
      compared("model: {family: ncf, layers: 3, hidden: 8, users: 1000, items: 500}\n" + kMachine +
               "parallel: {tensor: 4, data: 2}\ntraining: {global_batch: 64, microbatch: 8}\n");
  CHECK_THAT(rows.at("megatron"),
             Catch::Contains("parallel.tensor: tensor parallelism splits no operator of family "
                             "ncf"));
  CHECK(rows.at("smp memory").empty());
  CHECK(rows.at("map").empty());
  // A study with which something else is wrong is refused as always.
  compared(kGpt + "parallel: {tensor: 4, data: 2}\ntraining: {global_batch: 65}\n", 2);
}

TEST_CASE("where one method alone can split a model, the others say why not") {
  // 4 ranks divide neither 6 heads nor 2 samples: no mesh of features or rows is left.
  const std::string heads =
      "model: {family: gpt, layers: 2, hidden: 96, heads: 6, vocab: 64, seq_len: 32}\n" + kMachine +
      "parallel: {tensor: 4, data: 2";
  const std::string step = "}\ntraining: {global_batch: 8, microbatch: 1}\n";
  const std::string undivided = "parallel.tensor: 4 ranks do not divide heads 6";
  for (const std::string method : {"", ", tensor_method: map", ", tensor_method: smp"}) {
    CAPTURE(method);
    const auto rows = compared(heads + method + step);
    CHECK(rows.at("map").empty());
    CHECK_THAT(rows.at("megatron"), Catch::StartsWith(undivided));
    CHECK_THAT(rows.at("atp"), Catch::StartsWith(undivided));
    CHECK_THAT(rows.at("smp memory"), Catch::StartsWith(undivided));
    CHECK_THAT(rows.at("summa-2d"), Catch::StartsWith("training.microbatch: method summa-2d"));
    CHECK(rows.count("as it stands") == 0);
  }
  const auto images = compared("model: {family: resnet, depth: 18}\n" + kMachine +
                               "parallel: {tensor: 4, data: 2}\n"
                               "training: {global_batch: 16, microbatch: 8}\n");
  CHECK(images.at("map").empty());
  CHECK_THAT(images.at("megatron"),
             Catch::StartsWith("parallel.tensor: tensor parallelism splits no operator of family"));
  const auto one =
      compared("model: {family: ncf, layers: 3, hidden: 8, users: 1000, items: 500}\n" + kMachine +
               "parallel: {tensor: 8, data: 1}\n"
               "training: {global_batch: 1, microbatch: 1}\n");
  CHECK(one.at("map").empty());
  CHECK(one.at("smp memory prescaled").empty());
}

TEST_CASE("a budget that map does not keep leaves the others") {
  const auto rows = compared(kGpt +
                             "parallel: {tensor: 4, data: 2, tensor_method: {name: map, "
                             "memory_budget: 1 kB}}\ntraining: {global_batch: 8, microbatch: 4}\n");
  CHECK(rows.at("megatron").empty());
  CHECK_THAT(rows.at("map"), Catch::StartsWith("parallel.tensor_method.memory_budget: no splits"));
}

TEST_CASE("a rank of smp has a part of the microbatch where a step has no more samples") {
  // 4 ranks with 4 samples each would be 16 of the step's 8 on two replicas.
  const std::string rest = "parallel: {tensor: 4, data: 2";
  const auto rows = compared(kGpt + rest + "}\ntraining: {global_batch: 8, microbatch: 4}\n");
  CHECK(rows.at("smp memory") == "microbatch 1");
  CHECK(rows.at("smp speed") == "microbatch 1");
  CHECK(rows.at("megatron").empty());
  // 2 samples are no four ranks': all are given the same, but where the study itself says not.
  const std::string two = "}\ntraining: {global_batch: 4, microbatch: 2}\n";
  const auto few = compared(kGpt + rest + two);
  CHECK(few.at("smp memory prescaled").empty());
  CHECK(few.at("smp speed prescaled").empty());
  CHECK(few.count("smp memory") == 0);
  const auto own = compared(kGpt + rest + ", tensor_method: smp" + two);
  CHECK_THAT(own.at("smp memory"), Catch::Contains("training.global_batch: 4 is not a multiple of "
                                                   "data(2) * tensor(4) * microbatch(2) = 16"));
}

TEST_CASE("chunks of atp alone, and of a microbatch that they do not divide") {
  const auto rows = compared(kGpt +
                             "parallel: {tensor: 4, data: 2, tensor_method: {name: atp, mesh: [2, "
                             "2], chunks: 4}}\ntraining: {global_batch: 12, microbatch: 6}\n");
  CHECK_THAT(rows.at("atp"), Catch::Contains("parallel.tensor_overlap: 4 chunks do not divide the "
                                             "6 samples"));
  CHECK(rows.at("megatron").empty());
}

TEST_CASE("where no method can read the study, each says why") {
  const ScratchFolder folder;
  // Mamba's heads are of one group, and chunks leave map out, which could split it.
  write_text(folder / "study.yaml",
             "model: {family: mamba2, layers: 2, hidden: 64, head_dim: 16, state_size: 16, "
             "chunk_size: 8, vocab: 64, seq_len: 32}\n" +
                 kMachine + "parallel: {tensor: 4, data: 2, tensor_overlap: block}\n" +
                 "training: {global_batch: 8, microbatch: 4}\n");
  ChildProcess process(
      folder, {TRAINYARD, "simulate", folder / "study.yaml", "--compare-tensor-methods", "--json"},
      folder / "answer.json");
  CHECK(process.end() == 2);
  CHECK_THAT(process.err(), Catch::Contains("none of the 8 methods can run"));
  std::map<std::string, std::string> rows;
  const auto answer = nlohmann::json::parse(read_text(folder / "answer.json"));
  for (const auto& row : answer["methods"]) rows[row["method"]] = row["refused"];
  CHECK(rows.size() == 8);
  CHECK_THAT(rows.at("megatron"),
             Catch::StartsWith("parallel.tensor: 4 ranks do not divide groups 1"));
  CHECK_THAT(rows.at("smp"), Catch::StartsWith("parallel.tensor_method: method smp distributes "
                                               "modules of families"));
  CHECK_THAT(rows.at("3d"), Catch::StartsWith("parallel.tensor: method 3d is made for meshes of"));
  CHECK_THAT(rows.at("map"), Catch::StartsWith("parallel.tensor_overlap: "));
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

}  // namespace trainyard::compare_methods_test
