// Masks and integers of an ONNX file: choices between constants or data, tables, or a refusal.
#include <catch2/catch.hpp>
#include <span>
#include <string>
#include <vector>

#include "tests/models/onnx/onnx_files.h"

namespace trainyard::onnx_masks_test {

TEST_CASE("what follows from a mask and constants is one choice between constants") {
  // softmax(x + (1 - mask) * -8), as exporters write it, and the same of a comparison.
  const auto masked = [](const OnnxFile& start, const std::string& bias) {
    OnnxFile file = start;
    file.node("Add", {"x", bias}, {"sum"}).node("Softmax", {"sum"}, {"s"});
    file.node("MatMul", {"s", "w"}, {"y"}).output("y");
    return graph_of(file).graph;
  };
  OnnxFile start;
  start.input("x", {"N", std::int64_t{4}}).weight("w", {4, 3});
  const auto choice = [](const Graph& graph) {
    std::vector<std::vector<double>> out;
    const Op& where = graph.ops[OpId(0)];
    CHECK(graph.tensors[where.inputs[0]].dtype == DType::kUint8);
    CHECK(graph.tensors[where.inputs[0]].name == "mask");
    for (std::size_t i = 1; i < 3; ++i) {
      const Tensor& operand = graph.tensors[where.inputs[i]];
      std::vector<double> numbers(static_cast<std::size_t>(num_elements(operand.shape)));
      graph.constants.at(operand.name)->fill(std::span(numbers));
      out.push_back(numbers);
    }
    return out;
  };
  const std::vector<std::string> all{"where", "add", "softmax", "linear", "cross_entropy"};

  OnnxFile cast = start;
  cast.input("mask", {"N", std::int64_t{4}}, onnx::TensorProto::INT64);
  cast.weight("one", {1}, {1}).weight("low", {1}, {-8}).node("Cast", {"mask"}, {"m"});
  cast.set("to", onnx::TensorProto::FLOAT)
      .node("Sub", {"one", "m"}, {"no"})
      .node("Mul", {"no", "low"}, {"bias"});
  const Graph of_cast = masked(cast, "bias");
  CHECK(kinds(of_cast) == all);
  CHECK(choice(of_cast) == std::vector<std::vector<double>>{{0}, {-8}});

  OnnxFile compared = start;
  compared.input("mask", {"N", std::int64_t{4}}, onnx::TensorProto::INT64);
  compared.integers("zero", {0}).weight("low", {1}, {-8}).weight("is", {4}, {0, 1, 0, 1});
  compared.node("Equal", {"mask", "zero"}, {"no"})
      .node("Cast", {"is"}, {"are"})
      .set("to", onnx::TensorProto::BOOL);
  compared.node("Or", {"no", "are"}, {"either"}).weight("nothing", {1}, {0});
  compared.node("Where", {"either", "low", "nothing"}, {"bias"});
  const Graph of_comparison = masked(compared, "bias");
  CHECK(kinds(of_comparison) == all);
  CHECK(choice(of_comparison) == std::vector<std::vector<double>>{{0, -8, 0, -8}, {-8}});
}

TEST_CASE("a mask chooses between data, the other way round where it is turned around") {
  OnnxFile file;
  file.input("x", {"N", std::int64_t{4}}).input("keep", {"N"}, onnx::TensorProto::BOOL);
  file.integers("one", {1}).weight("low", {1}, {-8}).node("Unsqueeze", {"keep", "one"}, {"row"});
  file.node("Not", {"row"}, {"drop"}).node("Where", {"drop", "low", "x"}, {"kept"});
  file.weight("w", {4, 3}).node("MatMul", {"kept", "w"}, {"y"}).output("y");
  const Graph graph = graph_of(file).graph;
  CHECK(kinds(graph) == std::vector<std::string>{"view", "where", "linear", "cross_entropy"});
  const Op& where = graph.ops[OpId(1)];
  CHECK(graph.tensors[where.inputs[0]].shape == Shape{2, 1});
  CHECK(graph.tensors[where.inputs[1]].name == "x");
}

TEST_CASE("integers are masks, numbers, or what a model computes with as they are") {
  // relu(cast(name)) W, and whatever else reads the input.
  const auto with = [](const std::string& name, const auto& add) {
    OnnxFile file;
    file.input(name, {"N", std::int64_t{4}}, onnx::TensorProto::INT64);
    file.weight("w", {4, 3}).weight("table", {9, 3}).integers("zero", {0}).integers("one", {1});
    file.node("Cast", {name}, {"x"}).set("to", onnx::TensorProto::FLOAT);
    file.node("Relu", {"x"}, {"r"}).node("MatMul", {"r", "w"}, {"h"});
    add(file);
    const Graph graph = graph_of(file).graph;
    std::string text(to_string(graph.tensors[TensorId(0)].dtype));
    for (const std::string& kind : kinds(graph)) {
      if (kind != "view" && kind != "linear" && kind != "cross_entropy") text += " " + kind;
    }
    return text;
  };
  CHECK(with("counts", [](OnnxFile& file) { file.output("h"); }) == "fp32 relu");
  CHECK(with("mask", [](OnnxFile& file) { file.output("h"); }) == "uint8 where");
  CHECK(with("ids", [](OnnxFile& file) {
          file.node("Gather", {"table", "ids"}, {"rows"});
          file.node("ReduceSum", {"rows", "one"}, {"s"}).set("keepdims", 0);
          file.node("Add", {"h", "s"}, {"y"}).output("y");
        }) == "int64 cast relu embedding sum add");
  CHECK(with("ids", [](OnnxFile& file) {
          file.node("Equal", {"ids", "zero"}, {"e"}).node("Where", {"e", "x", "r"}, {"z"});
          file.node("MatMul", {"z", "w"}, {"y"}).output("y");
        }) == "int64 cast relu combine where");
  CHECK(with("mask", [](OnnxFile& file) {
          file.node("CumSum", {"mask", "one"}, {"at"}).node("Gather", {"table", "at"}, {"rows"});
          file.node("ReduceSum", {"rows", "one"}, {"s"}).set("keepdims", 0);
          file.node("Add", {"h", "s"}, {"y"}).output("y");
        }) == "uint8 where where cumsum embedding sum add");
}

}  // namespace trainyard::onnx_masks_test
