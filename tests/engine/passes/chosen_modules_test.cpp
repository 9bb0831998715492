// Chosen modules (parallel.tensor_modules): they are split, the others' weights stay whole.
#include "engine/passes/chosen_modules.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "engine/program/program_text.h"
#include "tests/engine/passes/layer_volumes.h"
#include "tests/engine/passes/split_gpt.h"

namespace trainyard::chosen_modules_test {

TEST_CASE("tensor_modules splits the modules that it names, and those inside") {
  const auto mlp = layer_volumes(split_program({"parallel.tensor_modules=['*.mlp']"}));
  CHECK(to_text(mlp) == to_text(std::map<std::string, std::int64_t>{
                            {"F all_reduce tp", kElements}, {"B all_reduce tp", kElements}}));
  const Graph graph =
      sharded_graph(prepare_text(kSplitGpt, {"parallel.tensor_modules=['*.layers.0.mlp']"}));
  std::map<std::string, Shape> shapes;
  for (const Parameter& parameter : graph.parameters)
    shapes[parameter.name] = graph.tensors[parameter.tensor].shape;
  CHECK(shapes.at("decoder.layers.0.mlp.fc1.weight") == Shape{32, 32});
  CHECK(shapes.at("decoder.layers.0.mlp.fc2.weight") == Shape{32, 32});
  CHECK(shapes.at("decoder.layers.1.mlp.fc1.weight") == Shape{128, 32});
  CHECK(shapes.at("decoder.layers.0.attention.qkv.weight") == Shape{96, 32});
  CHECK(shapes.at("embedding.tokens.weight") == Shape{64, 32});
  // What one product of a pair makes is gathered, and what the other reads is sliced.
  const auto column = layer_volumes(split_program({"parallel.tensor_modules=['*.fc1']"}));
  CHECK(to_text(column) ==
        to_text(std::map<std::string, std::int64_t>{{"F all_gather tp", 4 * kElements},
                                                    {"B all_reduce tp", kElements}}));
  const auto row = layer_volumes(split_program({"parallel.tensor_modules=['*.fc2']"}));
  CHECK(to_text(row) == to_text(std::map<std::string, std::int64_t>{
                            {"F all_reduce tp", kElements}, {"B all_gather tp", 4 * kElements}}));
}

TEST_CASE("choosing all modules is choosing none apart") {
  CHECK(program_digest(split_program({"parallel.tensor_modules=['*']"})) ==
        program_digest(split_program({})));
  // Heads that the ranks do not divide stay whole.
  CHECK(split_error({"model.heads=2"}).find("do not divide heads 2") != std::string::npos);
  CHECK(split_error({"model.heads=2", "parallel.tensor_modules=['*.mlp']"}) == "no error");
}

TEST_CASE("what a choice of modules cannot split is said at its key") {
  CHECK(split_error({"parallel.tensor_modules=['*.fc9']"})
            .find("parallel.tensor_modules: '*.fc9' matches no module; there are") == 0);
  CHECK(split_error({"parallel.tensor_modules=[lm_head]"}) ==
        "parallel.tensor_modules: lm_head is chosen and embedding.tokens is not, and they share "
        "embedding.tokens.weight; choose both or neither");
  CHECK(split_error({"parallel.tensor_modules=['*.norm_1']"})
            .find("parallel.tensor_modules: no module that is chosen has a weight that is split; "
                  "embedding.tokens, decoder.layers.0.attention.qkv") == 0);
}

}  // namespace trainyard::chosen_modules_test
