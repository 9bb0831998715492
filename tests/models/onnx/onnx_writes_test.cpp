// Elements that ONNX models write, order or turn round, and recurrent nodes.
// tests/real/exec/onnx_models_test.cpp holds such models to PyTorch.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "tests/models/onnx/onnx_files.h"

namespace trainyard::onnx_writes_test {

namespace {

using Kinds = std::vector<std::string>;
using Integers = std::vector<std::int64_t>;

Graph graph_of_means(const OnnxFile& file, std::int64_t batch = 2) {
  ModelConfig config = model_of(file);
  config.loss = ImportedLoss::kMeanSquare;
  return build_onnx_graph(config, {.microbatch = batch}).graph;
}

/// x of these dims with a bias, as all that is trained.
OnnxFile& trained(OnnxFile& file, const OnnxFile::Dims& dims) {
  const auto* width = std::get_if<std::int64_t>(&dims.back());
  return file.input("given", dims).weight("bias", {*width}).node("Add", {"given", "bias"}, {"x"});
}

/// x [N, 4, 3] and rows at constant tuples of it: `places` [count, length] as integers.
OnnxFile written(const Integers& places, const Integers& tuple, const Integers& update) {
  OnnxFile file;
  OnnxFile::Dims dims{"N"};
  for (const std::int64_t size : update) dims.emplace_back(size);
  trained(file, {"N", std::int64_t{4}, std::int64_t{3}}).input("u", dims);
  file.integers("flat", places).integers("tuple", tuple);
  file.node("Reshape", {"flat", "tuple"}, {"at"});
  return file.node("ScatterND", {"x", "at", "u"}, {"y"}).output("y");
}

/// Rows of 4 of both samples, as TorchScript writes x[:, rows] = u.
OnnxFile rows_written(const Integers& rows) {
  Integers places;
  for (std::int64_t sample = 0; sample < 2; ++sample) {
    for (const std::int64_t row : rows) places.insert(places.end(), {sample, row});
  }
  const auto count = std::ssize(rows);
  return written(places, {2, count, 2}, {count, 3});
}

}  // namespace

TEST_CASE("a range of a dim that is written lies between what is before and behind it") {
  const Graph graph = graph_of_means(rows_written({1, 2}));
  CHECK(kinds(graph) == Kinds{"add", "narrow", "narrow", "concat", "mse"});
  CHECK(graph.ops[OpId(2)].attrs->begin == 3);
  CHECK(kinds(graph_of_means(rows_written({0}))) == Kinds{"add", "narrow", "concat", "mse"});
}

TEST_CASE("elements at constant places are written by one index for all samples") {
  const Graph graph = graph_of_means(rows_written({3, 1}));
  CHECK(kinds(graph) == Kinds{"add", "view", "view", "scatter", "view", "mse"});
  const Tensor& index = graph.tensors[graph.ops[OpId(3)].inputs[1]];
  REQUIRE((index.constant && index.shape == Shape{1, 6}));
  std::vector<std::int64_t> places(6);
  graph.constants.at(index.name)->fill(std::span(places));
  CHECK(places == Integers{9, 10, 11, 3, 4, 5});  // rows 3 and 1 of three elements each
}

TEST_CASE("what writes one sample alone, or into one from another, is refused") {
  CHECK(problems_of([] {
          graph_of_means(written({0, 1}, {1, 2}, {}));
        }).find("node 'y' (ScatterND): ") != std::string::npos);
  OnnxFile file;
  trained(file, {"N", std::int64_t{4}})
      .input("at", {"N", std::int64_t{4}}, onnx::TensorProto::INT64);
  file.node("ScatterElements", {"x", "at", "x"}, {"y"}).set("axis", 0).output("y");
  CHECK(problems_of([&] { graph_of_means(file); }) ==
        "m.onnx: node 'y' (ScatterElements): writes into other samples, which is not modelled");
}

TEST_CASE("elements at data are written along an axis") {
  OnnxFile file;
  trained(file, {"N", std::int64_t{4}, std::int64_t{3}});
  file.input("at", {"N", std::int64_t{2}, std::int64_t{3}}, onnx::TensorProto::INT64);
  file.input("u", {"N", std::int64_t{2}, std::int64_t{3}});
  file.node("ScatterElements", {"x", "at", "u"}, {"y"}).set("axis", 1).output("y");
  const Graph graph = graph_of_means(file);
  const auto op = std::find_if(graph.ops.begin(), graph.ops.end(),
                               [](const Op& one) { return one.kind == OpKind::kScatter; });
  REQUIRE(op != graph.ops.end());
  CHECK(graph.tensors[op->inputs[0]].shape == Shape{2, 3, 4, 1});  // the axis behind the others
  CHECK(graph.tensors[op->inputs[1]].shape == Shape{2, 3, 2});
  CHECK(graph.tensors[graph.ops.back().inputs[0]].shape == Shape{2, 4, 3});
}

TEST_CASE("the largest of an axis are looked up where they are") {
  const auto ordered = [](const std::string& read, std::int64_t largest) {
    OnnxFile file;
    trained(file, {"N", std::int64_t{5}, std::int64_t{3}}).integers("k", {2});
    file.node("TopK", {"x", "k"}, {"values", "places"}).set("axis", 1).set("largest", largest);
    file.output(read);
    return file;
  };
  const Graph graph = graph_of_means(ordered("values", 1));
  CHECK(kinds(graph) ==
        Kinds{"add", "permute", "topk", "view", "gather", "view", "permute", "mse"});
  CHECK(graph.tensors[graph.ops.back().inputs[0]].shape == Shape{2, 2, 3});
  CHECK(kinds(graph_of_means(ordered("values", 0)))[2] == "affine");
  OnnxFile many = ordered("values", 1);
  many.proto().mutable_graph()->mutable_initializer(1)->set_int64_data(0, 6);
  CHECK(problems_of([&] { graph_of_means(many); }) == "m.onnx: node 'values' (TopK): takes 6 of 5");
}

TEST_CASE("sums from the end on, and without their own element") {
  const auto summed = [](std::int64_t reverse, std::int64_t exclusive) {
    OnnxFile file;
    trained(file, {"N", std::int64_t{5}}).integers("axis", {1});
    file.node("CumSum", {"x", "axis"}, {"y"}).set("reverse", reverse).set("exclusive", exclusive);
    return kinds(graph_of_means(file.output("y")));
  };
  CHECK(summed(0, 0) == Kinds{"add", "cumsum", "mse"});
  CHECK(summed(1, 0) == Kinds{"add", "flip", "cumsum", "flip", "mse"});
  CHECK(summed(0, 1) == Kinds{"add", "cumsum", "zero_pad", "narrow", "mse"});
}

TEST_CASE("pads of a tensor's own elements are ranges of it") {
  const auto padded = [](const char* mode, const Integers& pads) {
    OnnxFile file;
    trained(file, {"N", std::int64_t{3}}).integers("pads", pads);
    file.node("Pad", {"x", "pads"}, {"y"});
    auto& node = *file.proto().mutable_graph()->mutable_node(1);
    auto* attribute = node.add_attribute();
    attribute->set_name("mode");
    attribute->set_type(onnx::AttributeProto::STRING);
    attribute->set_s(mode);
    return file.output("y");
  };
  CHECK(kinds(graph_of_means(padded("reflect", {0, 1, 0, 2}))) ==
        Kinds{"add", "narrow", "flip", "narrow", "flip", "concat", "mse"});
  CHECK(kinds(graph_of_means(padded("wrap", {0, 1, 0, 0}))) ==
        Kinds{"add", "narrow", "concat", "mse"});
  CHECK(problems_of([&] {
          graph_of_means(padded("reflect", {0, 3, 0, 0}));
        }) == "m.onnx: node 'y' (Pad): has more around a dim than its 3 elements give");
  CHECK(problems_of([&] {
          graph_of_means(padded("edge", {1, 0, 0, 0}));
        }) == "m.onnx: node 'y' (Pad): makes other samples, which is not modelled");
}

TEST_CASE("a recurrent node is a product of all inputs and one of each step's state") {
  // 7 steps of 3 features, states of 4: an LSTM's four gates are 16 rows.
  const auto lstm = [](std::int64_t steps) {
    OnnxFile file;
    file.input("x", {"N", steps, std::int64_t{3}}).weight("w", {1, 16, 3}).weight("r", {1, 16, 4});
    file.weight("b", {1, 32}).node("Transpose", {"x"}, {"t"}).set("perm", Integers{1, 0, 2});
    return file.node("LSTM", {"t", "w", "r", "b"}, {"all", "y"}).set("hidden_size", 4).output("y");
  };
  const Graph graph = graph_of_means(lstm(7));
  const Kinds made = kinds(graph);
  CHECK(std::count(made.begin(), made.end(), "linear") == 1 + 7);
  CHECK(std::count(made.begin(), made.end(), "concat") == 0);  // nobody reads all states
  CHECK(graph.model_flop_per_microbatch == 2.0 * 2 * 7 * 16 * (3 + 4));
  CHECK(count_parameters(graph).with_head == 16 * (3 + 4) + 32);
  CHECK(problems_of([&] { graph_of_means(lstm(4097)); }) ==
        "m.onnx: node 'all' (LSTM): goes through 4097 steps, of which at most 4096 are modelled");
  OnnxFile longer = lstm(7);
  longer.integers("lengths", {7, 5});
  longer.proto().mutable_graph()->mutable_node(1)->add_input("lengths");
  CHECK(problems_of([&] { graph_of_means(longer); }) ==
        "m.onnx: node 'all' (LSTM): has sequences of lengths of their own, which is not modelled");
}

TEST_CASE("a recurrence that an exporter wrote step by step begins with states for each sample") {
  // As PyTorch's dynamo exporter writes an nn.RNN of 2 steps: states of 4 in [1, N, 4], the first
  // of them an Expand to a shape that says the batch.
  const auto rnn = [](bool learned) {
    OnnxFile file(20);
    file.input("x", {"N", std::int64_t{2}, std::int64_t{3}}).integers("one", {1});
    file.integers("none", {0}).integers("two", {2}).integers("four", {4});
    file.weight("val_0", {3, 4}).weight("val_1", {4, 4}).weight("b", {4}, {1, 2, 3, 4});
    if (learned) file.weight("h", {1, 1, 4}, {1, 2, 3, 4});
    if (!learned) file.weight("h", {1}, {0});
    file.node("Shape", {"x"}, {"n"}).set("start", 0).set("end", 1);
    file.node("Concat", {"one", "n", "four"}, {"to"}).set("axis", 0);
    file.node("Expand", {"h", "to"}, {"state"});
    file.node("Transpose", {"x"}, {"t"}).set("perm", Integers{1, 0, 2});
    file.node("MatMul", {"t", "val_0"}, {"all"});
    const std::string ends[] = {"none", "one", "two"};
    std::string state = "state";
    for (int step = 0; step < 2; ++step) {
      const std::string at = std::to_string(step);
      file.node("Slice", {"all", ends[step], ends[step + 1], "none"}, {"slice" + at});
      file.node("Squeeze", {"slice" + at, "none"}, {"in" + at});
      file.node("MatMul", {state, "val_1"}, {"product" + at});
      file.node("Add", {"product" + at, "b"}, {"own" + at});
      file.node("Add", {"own" + at, "in" + at}, {"sum" + at});
      state = "tanh" + at;
      file.node("Tanh", {"sum" + at}, {state});
    }
    return file.node("Squeeze", {state, "none"}, {"y"}).output("y");
  };
  for (const bool learned : {false, true}) {
    CAPTURE(learned);
    const Graph graph = graph_of(rnn(learned), 5).graph;
    // All inputs' product, and those of states; that of zeros is as PyTorch computes it.
    const Kinds made = kinds(graph);
    CHECK(std::count(made.begin(), made.end(), "linear") == 3);
    CHECK(count_parameters(graph).with_head == 3 * 4 + 4 * 4 + 4 + (learned ? 4 : 0));
    for (const Tensor& tensor : graph.tensors) {
      CAPTURE(tensor.name);
      CHECK((!tensor.constant || std::count(tensor.shape.begin(), tensor.shape.end(), 5) == 0));
    }
  }
}

TEST_CASE("weights and biases of recurrent nodes start uniformly within 1 / sqrt(width)") {
  // As nn.GRU's reset_parameters has it; the deviation of a uniform number within b is b / sqrt(3).
  OnnxFile file;
  file.input("x", {"N", std::int64_t{2}, std::int64_t{3}}).weight("w", {1, 48, 3});
  file.weight("r", {1, 48, 16}).weight("b", {1, 96}).node("Transpose", {"x"}, {"t"});
  file.set("perm", Integers{1, 0, 2}).node("GRU", {"t", "w", "r", "b"}, {"all", "y"});
  file.set("hidden_size", 16).set("linear_before_reset", 1).output("y");
  const Graph graph = graph_of_means(file);
  REQUIRE(graph.parameters.size() == 3);
  for (const Parameter& parameter : graph.parameters) {
    CAPTURE(parameter.name);
    CHECK(parameter.init == Init::kUniform);
    CHECK(parameter.deviation == Approx(0.25 / std::sqrt(3.0)));
  }
}

TEST_CASE("a norm without weights of its own is made of sums") {
  OnnxFile file;
  file.input("x", {"N", std::int64_t{4}}).node("ConstantOfShape", {"four"}, {"zeros"});
  file.integers("four", {4}).weight("fc", {3, 4});
  file.node("Exp", {"zeros"}, {"ones"}).node("LayerNormalization", {"x", "ones"}, {"n"});
  file.node("Gemm", {"n", "fc"}, {"y"}).set("transB", 1).output("y");
  CHECK(kinds(graph_of(file).graph) == Kinds{"sum", "affine", "sub", "power", "sum", "affine",
                                             "affine", "power", "mul", "linear", "cross_entropy"});
}

}  // namespace trainyard::onnx_writes_test
