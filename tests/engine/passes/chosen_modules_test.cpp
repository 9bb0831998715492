// Chosen modules (parallel.tensor_modules): they are split, the others' weights stay whole.
#include "engine/passes/chosen_modules.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "engine/program/program_text.h"
#include "tests/engine/passes/layer_volumes.h"
#include "tests/support/studies.h"

namespace trainyard {

namespace {

// B = 2, S = 8, H = 32, N = 8 heads of 4, F = 128, V = 64.
const std::string kGpt =
    "model: {family: gpt, layers: 2, hidden: 32, heads: 8, vocab: 64, seq_len: 8}\n"
    "cluster: dgx-a100-80g\n"
    "parallel: {tensor: 4, data: 1}\n"
    "training: {global_batch: 2, microbatch: 2, flash_attention: auto, dropout: 0}\n";
constexpr std::int64_t kElements = 2 * 8 * 32;  // of what lies between layers

Program program_of(const std::vector<std::string>& sets) {
  return compiled_program(prepare_text(kGpt, sets));
}

std::string error_of(const std::vector<std::string>& sets) {
  try {
    prepare_text(kGpt, sets);
  } catch (const ConfigError& error) {
    return error.key_path() + ": " + error.problem();
  }
  return "no error";
}

}  // namespace

TEST_CASE("tensor_modules splits the modules that it names, and those inside") {
  const auto mlp = layer_volumes(program_of({"parallel.tensor_modules=['*.mlp']"}));
  CHECK(to_text(mlp) == to_text(std::map<std::string, std::int64_t>{
                            {"F all_reduce tp", kElements}, {"B all_reduce tp", kElements}}));
  const Graph graph =
      sharded_graph(prepare_text(kGpt, {"parallel.tensor_modules=['*.layers.0.mlp']"}));
  std::map<std::string, Shape> shapes;
  for (const Parameter& parameter : graph.parameters)
    shapes[parameter.name] = graph.tensors[parameter.tensor].shape;
  CHECK(shapes.at("decoder.layers.0.mlp.fc1.weight") == Shape{32, 32});
  CHECK(shapes.at("decoder.layers.0.mlp.fc2.weight") == Shape{32, 32});
  CHECK(shapes.at("decoder.layers.1.mlp.fc1.weight") == Shape{128, 32});
  CHECK(shapes.at("decoder.layers.0.attention.qkv.weight") == Shape{96, 32});
  CHECK(shapes.at("embedding.tokens.weight") == Shape{64, 32});
  // What one product of a pair makes is gathered, and what the other reads is sliced.
  const auto column = layer_volumes(program_of({"parallel.tensor_modules=['*.fc1']"}));
  CHECK(to_text(column) ==
        to_text(std::map<std::string, std::int64_t>{{"F all_gather tp", 4 * kElements},
                                                    {"B all_reduce tp", kElements}}));
  const auto row = layer_volumes(program_of({"parallel.tensor_modules=['*.fc2']"}));
  CHECK(to_text(row) == to_text(std::map<std::string, std::int64_t>{
                            {"F all_reduce tp", kElements}, {"B all_gather tp", 4 * kElements}}));
}

TEST_CASE("choosing all modules is choosing none apart") {
  CHECK(program_digest(program_of({"parallel.tensor_modules=['*']"})) ==
        program_digest(program_of({})));
  // Heads that the ranks do not divide stay whole.
  CHECK(error_of({"model.heads=2"}).find("do not divide heads 2") != std::string::npos);
  CHECK(error_of({"model.heads=2", "parallel.tensor_modules=['*.mlp']"}) == "no error");
}

TEST_CASE("what a choice of modules cannot split is said at its key") {
  CHECK(error_of({"parallel.tensor_modules=['*.fc9']"})
            .find("parallel.tensor_modules: '*.fc9' matches no module; there are") == 0);
  CHECK(error_of({"parallel.tensor_modules=[lm_head]"}) ==
        "parallel.tensor_modules: lm_head is chosen and embedding.tokens is not, and they share "
        "embedding.tokens.weight; choose both or neither");
  CHECK(error_of({"parallel.tensor_modules=['*.norm_1']"})
            .find("parallel.tensor_modules: no module that is chosen has a weight that is split; "
                  "embedding.tokens, decoder.layers.0.attention.qkv") == 0);
}

}  // namespace trainyard
