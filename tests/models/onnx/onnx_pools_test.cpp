// Pools of ONNX models whose windows go beyond the image, or along one dim.
// tests/real/exec/onnx_models_test.cpp holds such models to PyTorch.
#include <algorithm>
#include <catch2/catch.hpp>
#include <span>
#include <string>
#include <vector>

#include "tests/models/onnx/onnx_files.h"

namespace trainyard::onnx_pools_test {

namespace {

Graph graph_of_means(const OnnxFile& file) {
  ModelConfig config = model_of(file);
  config.loss = ImportedLoss::kMeanSquare;
  return build_onnx_graph(config, {.microbatch = 2}).graph;
}

}  // namespace

TEST_CASE("windows that reach beyond an image take what it has there") {
  const auto pooled = [](const std::string& op, const std::vector<std::int64_t>& pads) {
    OnnxFile file;  // 5 rows and columns: two windows of 2 by 2, and a third of one
    file.input("x", {"N", std::int64_t{3}, std::int64_t{5}, std::int64_t{5}});
    file.weight("w", {3, 3, 1, 1}).node("Conv", {"x", "w"}, {"c"});
    OnnxFile& node = file.node(op, {"c"}, {"y"}).set("ceil_mode", 1).output("y");
    node.set("kernel_shape", std::vector<std::int64_t>{2, 2});
    node.set("strides", std::vector<std::int64_t>{2, 2}).set("pads", pads);
    return graph_of_means(file);
  };
  const Graph largest = pooled("MaxPool", {0, 0, 0, 0});
  CHECK(kinds(largest) ==
        std::vector<std::string>{"conv2d", "zero_pad", "zero_pad", "add", "max_pool2d", "mse"});
  const Graph mean = pooled("AveragePool", {0, 0, 0, 0});
  CHECK(kinds(mean) ==
        std::vector<std::string>{"conv2d", "zero_pad", "zero_pad", "avg_pool2d", "mul", "mse"});
  // A window of a quarter of its size counts four times, one of a half twice.
  const auto shares = std::find_if(mean.tensors.begin(), mean.tensors.end(), [](const Tensor& t) {
    return t.constant && t.shape == Shape{1, 1, 3, 3};
  });
  REQUIRE(shares != mean.tensors.end());
  std::vector<double> numbers(9);
  mean.constants.at(shares->name)->fill(std::span(numbers));
  CHECK(numbers == std::vector<double>{1, 1, 2, 1, 1, 2, 2, 2, 4});
  // One pixel around is even: three windows of two fill 5 + 1.
  CHECK(kinds(pooled("MaxPool", {1, 1, 0, 0})) ==
        std::vector<std::string>{"conv2d", "zero_pad", "zero_pad", "add", "max_pool2d", "mse"});
}

TEST_CASE("pools along one dim are those of images one pixel wide") {
  OnnxFile line;
  line.input("x", {"N", std::int64_t{3}, std::int64_t{6}}).weight("w", {3, 3, 1});
  line.node("Conv", {"x", "w"}, {"c"}).node("GlobalAveragePool", {"c"}, {"y"}).output("y");
  const Graph means = graph_of_means(line);
  CHECK(kinds(means) == std::vector<std::string>{"view", "view", "conv2d", "view", "view",
                                                 "avg_pool2d", "view", "mse"});
  CHECK(means.tensors[means.ops.back().inputs[0]].shape == Shape{2, 3, 1});
}

TEST_CASE("auto_pad makes as many windows as strides fit") {
  // 5 columns and a window of 4: at stride 2 three windows reach over 8, at stride 1 five over 8.
  // Of 3 pixels the larger part lies behind, or before.
  const auto padded = [](const std::string& how, std::int64_t stride) {
    OnnxFile file;
    file.input("x", {"N", std::int64_t{3}, std::int64_t{5}}).weight("w", {2, 3, 4});
    OnnxFile& node = file.node("Conv", {"x", "w"}, {"y"}).output("y");
    auto* automatic = node.proto().mutable_graph()->mutable_node(0)->add_attribute();
    automatic->set_name("auto_pad");
    automatic->set_type(onnx::AttributeProto::STRING);
    automatic->set_s(how);
    node.set("kernel_shape", std::vector<std::int64_t>{4});
    node.set("strides", std::vector<std::int64_t>{stride});
    return graph_of_means(file);
  };
  for (const std::string how : {"SAME_UPPER", "SAME_LOWER"}) {
    for (const std::int64_t stride : {1, 2}) {
      const Graph graph = padded(how, stride);
      const auto pad = std::find_if(graph.ops.begin(), graph.ops.end(), [](const Op& op) {
        return op.kind == OpKind::kZeroPad && op.attrs->end + op.attrs->begin > 0;
      });
      REQUIRE(pad != graph.ops.end());
      CHECK(pad->attrs->begin == (how == "SAME_UPPER" ? 1 : 2));
      CHECK(pad->attrs->end == (how == "SAME_UPPER" ? 2 : 1));
      CHECK(graph.tensors[graph.ops.back().inputs[0]].shape == Shape{2, 2, stride == 1 ? 5 : 3});
    }
  }
}

}  // namespace trainyard::onnx_pools_test
