// Which weights of an ONNX file are parameters, of which modules, and under which names.
#include <catch2/catch.hpp>

#include "tests/models/onnx/onnx_files.h"

namespace trainyard::onnx_weights_test {

TEST_CASE("a table that an exporter copied for a product is one parameter") {
  const std::vector<float> table{1, 2, 3, 4, 5, 6}, turned{1, 3, 5, 2, 4, 6};
  const auto parameters_with = [&](const std::vector<float>& head) {
    OnnxFile file;
    file.input("ids", {"N", std::int64_t{5}}, onnx::TensorProto::INT64);
    file.weight("wte.weight", {3, 2}, table).weight("val_9", {2, 3}, head);
    file.node("Gather", {"wte.weight", "ids"}, {"h"}).set("axis", 0);
    file.node("MatMul", {"h", "val_9"}, {"y"}).output("y");
    return count_parameters(graph_of(file).graph).with_head;
  };
  CHECK(parameters_with(turned) == 6);
  CHECK(parameters_with(table) == 12);
}

TEST_CASE("norms whose equal weights an exporter merged have their own") {
  const auto norms = [](const std::vector<float>& scale) {
    OnnxFile file;
    file.input("x", {"N", std::int64_t{2}}).weight("a.weight", {2}, scale);
    file.weight("a.bias", {2}, {0, 0});
    file.node("LayerNormalization", {"x", "a.weight", "a.bias"}, {"h"}).named("/a/LayerNorm");
    file.node("LayerNormalization", {"h", "a.weight", "a.bias"}, {"y"}).named("/b/LayerNorm");
    return parameters(graph_of(file.output("y")).graph);
  };
  CHECK(norms({1, 1}) == std::vector<std::string>{"a.weight", "a.bias", "b.weight", "b.bias"});
  CHECK(norms({1, 2}) == std::vector<std::string>{"a.weight", "a.bias", "b.bias"});
}

TEST_CASE("weights that an exporter named are called as their module, and numbered") {
  OnnxFile file;
  file.input("x", {"N", std::int64_t{4}}).weight("fc.weight_1", {4, 4});
  std::string x = "x";
  for (const std::string name :
       {"onnx::MatMul_7", "onnx::MatMul_8", "fc.weight_1", "onnx::MatMul_9"}) {
    if (name.starts_with("onnx")) file.weight(name, {4, 4});
    const std::string y = "of_" + name;
    file.node("MatMul", {x, name}, {y}).named("/fc/MatMul");
    x = y;
  }
  CHECK(parameters(graph_of(file.output(x)).graph) ==
        std::vector<std::string>{"fc.weight", "fc.weight_1", "fc.weight_1_1", "fc.weight_2"});
}

TEST_CASE("weights are parameters behind what only changes their type or bounds") {
  // 1 + w of a norm, cast; the bias of one feature; a bounded scale; a slope.
  OnnxFile file;
  file.input("x", {"N", std::int64_t{4}}).weight("norm", {4}).weight("fc", {4, 1});
  file.weight("fc.bias", {1})
      .weight("scale", {4})
      .weight("act.weight", {1})
      .weight("high", {1}, {3});
  file.node("Cast", {"norm"}, {"n"}).set("to", 1).node("Mul", {"x", "n"}, {"a"});
  file.node("Clip", {"scale", "", "high"}, {"s"}).node("Mul", {"a", "s"}, {"b"});
  file.node("PRelu", {"b", "act.weight"}, {"c"}).node("MatMul", {"c", "fc"}, {"h"});
  file.node("Add", {"h", "fc.bias"}, {"y"}).output("y");
  ModelConfig config = model_of(file);
  config.loss = ImportedLoss::kMeanSquare;
  CHECK(parameters(build_onnx_graph(config, {.microbatch = 2}).graph) ==
        std::vector<std::string>{"norm", "scale", "act.weight", "fc", "fc.bias"});
}

TEST_CASE("rows of what parameters make are looked up, however often they change") {
  OnnxFile file;  // rows 0 and 2 in turn: more ranges than are taken apart
  file.input("x", {"N", std::int64_t{4}}).weight("bias", {5, 4}).integers("first", {0});
  std::vector<std::int64_t> at;
  for (int i = 0; i < 70; ++i) at.push_back(i % 2 * 2);
  file.integers("at", at).node("Relu", {"bias"}, {"table"});
  file.node("Gather", {"table", "at"}, {"rows"}).set("axis", 0);
  file.node("ReduceSum", {"rows", "first"}, {"sum"}).node("Add", {"x", "sum"}, {"y"}).output("y");
  ModelConfig config = model_of(file);
  config.loss = ImportedLoss::kMeanSquare;
  CHECK(kinds(build_onnx_graph(config, {.microbatch = 2}).graph) ==
        std::vector<std::string>{"relu", "embedding", "sum", "add", "mse"});
}

}  // namespace trainyard::onnx_weights_test
