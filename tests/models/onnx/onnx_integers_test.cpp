// Integers that an ONNX file computes from its data: which ops they become, and what is refused.
// tests/real/exec/onnx_models_test.cpp holds such models to PyTorch.
#include <catch2/catch.hpp>
#include <span>
#include <string>
#include <vector>

#include "tests/models/onnx/onnx_files.h"

namespace trainyard::onnx_integers_test {

namespace {

using Kinds = std::vector<std::string>;

/// ids [N, 4] of integers.
OnnxFile of_ids() {
  OnnxFile file;
  file.input("ids", {"N", std::int64_t{4}}, onnx::TensorProto::INT64);
  return file.integers("zero", {0}).integers("one", {1}), file;
}

/// Rows of a table [9, 3] at `index`, as the logits.
OnnxFile looked_up(OnnxFile file, const std::string& index) {
  file.weight("table", {9, 3}).node("Gather", {"table", index}, {"y"}).output("y");
  return file;
}

const Op& first_op(const Graph& graph, OpKind kind) {
  for (const Op& op : graph.ops) {
    if (op.kind == kind) return op;
  }
  FAIL("no " << to_string(kind));
  return graph.ops[OpId(0)];
}

}  // namespace

TEST_CASE("positions that leave padding out are sums over a comparison, times it") {
  // RoBERTa's: cumsum(ids != 0) * (ids != 0).
  OnnxFile file = of_ids();
  file.node("Equal", {"ids", "zero"}, {"e"}).node("Not", {"e"}, {"seen"});
  file.node("Cast", {"seen"}, {"m"}).set("to", onnx::TensorProto::INT64);
  file.node("CumSum", {"m", "one"}, {"sums"}).node("Mul", {"sums", "m"}, {"at"});
  const Graph graph = graph_of(looked_up(file, "at")).graph;
  CHECK(kinds(graph) == Kinds{"combine", "where", "cumsum", "mul", "embedding", "cross_entropy"});
  const Op& where = first_op(graph, OpKind::kWhere);  // of ids == 0: 0, else 1
  for (const std::size_t i : {1, 2}) {
    std::vector<std::int64_t> number(1);
    graph.constants.at(graph.tensors[where.inputs[i]].name)->fill(std::span(number));
    CHECK(number[0] == (i == 1 ? 0 : 1));
  }
  for (const Op& op : graph.ops) {
    if (op.kind == OpKind::kCrossEntropy || op.kind == OpKind::kEmbedding) continue;
    CHECK_FALSE(graph.tensors[op.outputs[0]].needs_gradient);
  }
}

TEST_CASE("integer constants are exact") {
  OnnxFile file = of_ids();
  file.integers("prime", {2654435761}).integers("rows", {9});
  file.node("Mul", {"ids", "prime"}, {"p"}).node("Mod", {"p", "rows"}, {"at"});
  const Graph graph = graph_of(looked_up(file, "at")).graph;
  CHECK(kinds(graph) == Kinds{"mul", "combine", "embedding", "cross_entropy"});
  std::vector<std::int64_t> prime(1);
  const Op& mul = first_op(graph, OpKind::kMul);
  graph.constants.at(graph.tensors[mul.inputs[1]].name)->fill(std::span(prime));
  CHECK(prime[0] == 2654435761);

  OnnxFile beyond = of_ids();
  beyond.integers("large", {(std::int64_t{1} << 53) + 2}).node("Add", {"ids", "large"}, {"at"});
  CHECK(problems_of([&] { graph_of(looked_up(beyond, "at")); }) ==
        "m.onnx: node 'at' (Add): reads integers beyond 2^53, which are not kept exactly");
}

TEST_CASE("a one-hot is a comparison with 0, 1, ... that chooses between its values") {
  OnnxFile file = of_ids();
  file.integers("depth", {5}).weight("values", {2}, {0, 1}).weight("w", {5, 3});
  file.node("OneHot", {"ids", "depth", "values"}, {"hot"}).set("axis", -1);
  file.node("MatMul", {"hot", "w"}, {"y"}).output("y");
  const Graph graph = graph_of(file).graph;
  CHECK(kinds(graph) == Kinds{"view", "combine", "where", "linear", "cross_entropy"});
  CHECK(graph.tensors[first_op(graph, OpKind::kCombine).outputs[0]].shape == Shape{2, 4, 5});
  CHECK(graph.tensors[first_op(graph, OpKind::kLinear).outputs[0]].shape == Shape{2, 4, 3});
}

TEST_CASE("two conditions are one by a combination, what follows from one by constants") {
  OnnxFile file = of_ids();
  file.integers("ten", {10}).input("x", {"N", std::int64_t{4}}).weight("w", {4, 3});
  file.node("Greater", {"ids", "ten"}, {"g"}).node("Less", {"ids", "one"}, {"l"});
  file.node("Or", {"g", "l"}, {"either"}).node("Not", {"either"}, {"neither"});
  file.weight("nothing", {1}, {0}).node("Where", {"neither", "nothing", "x"}, {"kept"});
  file.node("MatMul", {"kept", "w"}, {"y"}).output("y");
  const Graph graph = graph_of(file).graph;
  CHECK(kinds(graph) == Kinds{"combine", "combine", "combine", "where", "linear", "cross_entropy"});
  const Op& greater = graph.ops[OpId(0)];
  CHECK(greater.attrs->combination == Combination::kLess);  // 10 < ids
  CHECK(graph.tensors[greater.inputs[1]].name == "ids");
  CHECK(graph.ops[OpId(2)].attrs->combination == Combination::kOr);
}

TEST_CASE("a row of each sample is gathered, whichever way it is written") {
  const auto with_rows = [] {
    OnnxFile file;
    file.input("x", {"N", std::int64_t{4}, std::int64_t{3}});
    return file.input("at", {"N"}, onnx::TensorProto::INT64), file;
  };
  OnnxFile pairs = with_rows();  // dynamo's x[arange(N), at]
  pairs.integers("samples", {0, 1}).integers("last", {-1});
  pairs.node("Unsqueeze", {"samples", "last"}, {"s"}).node("Unsqueeze", {"at", "last"}, {"a"});
  pairs.node("Concat", {"s", "a"}, {"pairs"}).set("axis", -1);
  pairs.node("GatherND", {"x", "pairs"}, {"rows"}).weight("w", {3, 2});
  pairs.node("MatMul", {"rows", "w"}, {"y"}).output("y");
  const Graph of_pairs = graph_of(pairs).graph;
  CHECK(kinds(of_pairs) == Kinds{"view", "gather", "view", "linear", "cross_entropy"});

  OnnxFile flat = with_rows();  // TorchScript's
  flat.integers("begins", {0, 4}).node("Add", {"at", "begins"}, {"flat"});
  flat.node("Flatten", {"x"}, {"all"}).set("axis", 2);
  flat.node("Gather", {"all", "flat"}, {"rows"}).weight("w", {3, 2});
  flat.node("MatMul", {"rows", "w"}, {"y"}).output("y");
  CHECK(kinds(graph_of(flat).graph) == Kinds{"view", "gather", "view", "linear", "cross_entropy"});

  OnnxFile across = with_rows();
  across.node("Gather", {"x", "at"}, {"rows"}).weight("w", {3, 2});
  across.node("MatMul", {"rows", "w"}, {"y"}).output("y");
  CHECK(
      problems_of([&] { graph_of(across); }) ==
      "m.onnx: node 'rows' (Gather): looks up samples, or parts of all of them, in data, which is "
      "not modelled");
}

TEST_CASE("parts of a sequence are ranges, or one split where all are taken") {
  const auto taken = [](const std::vector<std::int64_t>& which) {
    OnnxFile file;
    file.input("x", {"N", std::int64_t{6}}).integers("sizes", {2, 4}).weight("w", {4, 3});
    file.node("SplitToSequence", {"x", "sizes"}, {"parts"}).set("axis", 1);
    std::string last;
    for (const std::int64_t at : which) {
      const std::string name = "p" + std::to_string(at);
      file.integers(name + "at", {at}).node("SequenceAt", {"parts", name + "at"}, {name});
      file.node("Relu", {name}, {"r" + name});
      last = "r" + name;
    }
    if (which.size() > 1) {
      file.integers("axis", {1}).node("ReduceSum", {"rp0", "axis"}, {"s"});
      file.node("Add", {last, "s"}, {"sum"});
      last = "sum";
    }
    file.node("MatMul", {last, "w"}, {"y"}).output("y");
    return kinds(graph_of(file).graph);
  };
  CHECK(taken({1}) == Kinds{"narrow", "relu", "linear", "cross_entropy"});
  CHECK(taken({0, 1}) == Kinds{"split", "relu", "relu", "sum", "add", "linear", "cross_entropy"});
}

TEST_CASE("a dim of any length is not parted into as many tensors") {
  const auto problem = [](std::int64_t extent) {
    OnnxFile file;
    file.input("x", {"N", extent}).node("SplitToSequence", {"x"}, {"parts"}).set("axis", 1);
    file.integers("first", {0}).node("SequenceAt", {"parts", "first"}, {"y"});
    return problems_of([&] { graph_of(file.output("y")); });
  };
  CHECK(problem(65'537) ==
        "m.onnx: node 'parts' (SplitToSequence): makes parts of 1 of 65537 "
        "elements, more than 65536");
  CHECK(problem(65'536).find("SplitToSequence") == std::string::npos);
}

TEST_CASE("what is not done with integers is said by node") {
  OnnxFile file = of_ids();
  file.node("Div", {"ids", "ids"}, {"d"});
  CHECK(problems_of([&] { graph_of(looked_up(file, "d")); }) ==
        "m.onnx: node 'd' (Div): divides integers by what are no constants other than 0, which is "
        "not modelled");
  OnnxFile axis;
  axis.input("x", {"N", std::int64_t{4}, std::int64_t{3}});
  axis.input("at", {"N"}, onnx::TensorProto::INT64);
  axis.node("Gather", {"x", "at"}, {"y"}).set("axis", 1).output("y");
  CHECK(problems_of([&] { graph_of(axis); }) ==
        "m.onnx: node 'y' (Gather): looks up data along axis 1, alike in all samples, which is not "
        "modelled");
}

TEST_CASE("losses of several outputs are added up as they weigh") {
  OnnxFile file;
  file.input("x", {"N", std::int64_t{4}}).weight("a", {4, 3}).weight("b", {4, 5});
  file.node("MatMul", {"x", "a"}, {"topic"}).node("MatMul", {"x", "b"}, {"rating"});
  file.output("topic").output("rating");
  ModelConfig config = model_of(file);
  config.losses["topic"] = {ImportedLoss::kCrossEntropy, 0.5, LossDivisor::kElements};
  config.losses["rating"] = {ImportedLoss::kMeanSquare, 0.25, LossDivisor::kSamples};
  const Graph graph = build_onnx_graph(config, {.microbatch = 2}).graph;
  CHECK(kinds(graph) == Kinds{"linear", "linear", "mse", "cross_entropy", "add"});
  CHECK(first_op(graph, OpKind::kCrossEntropy).attrs->scale == 0.5F);
  CHECK(first_op(graph, OpKind::kMse).attrs->scale == 0.25F * 5);  // elements of a sample
  std::vector<std::string> targets;
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.role == TensorRole::kInput && tensor.name != "x") targets.push_back(tensor.name);
  }
  CHECK(targets == Kinds{"labels.rating", "labels.topic"});
  config.losses["price"] = {};
  CHECK(problems_of([&] { build_onnx_graph(config, {.microbatch = 2}); }) ==
        "m.onnx: model.loss names 'price', which is no output of it");
}

TEST_CASE("a cross entropy is of classes") {
  OnnxFile file;
  file.input("x", {"N", std::int64_t{4}}).weight("w", {4, 1}).integers("last", {1});
  file.node("MatMul", {"x", "w"}, {"m"}).node("Squeeze", {"m", "last"}, {"y"}).output("y");
  const std::string rest =
      ", where a cross entropy tells classes apart; say binary_cross_entropy or mean_square";
  CHECK(problems_of([&] { graph_of(file); }) ==
        "model.loss: output 'y' of m.onnx has one number for each label, [2]" + rest);
  file.proto().mutable_graph()->mutable_output(0)->set_name("m");
  CHECK(problems_of([&] { graph_of(file); }) ==
        "model.loss: output 'm' of m.onnx has one number for each label, [2, 1]" + rest);
  ModelConfig config = model_of(file);
  config.loss = ImportedLoss::kBinaryCrossEntropy;
  CHECK(kinds(build_onnx_graph(config, {.microbatch = 2}).graph) == Kinds{"linear", "bce"});
}

}  // namespace trainyard::onnx_integers_test
