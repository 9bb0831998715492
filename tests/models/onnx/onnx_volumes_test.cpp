// Images of three dims in ONNX models: their shapes, products and parameters.
// tests/real/exec/onnx_models_test.cpp holds such a model to PyTorch.
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/models/onnx/onnx_files.h"

namespace trainyard::onnx_volumes_test {

namespace {

using Numbers = std::vector<std::int64_t>;

/// x [2, 4, 6, 8, 8] through one node; of one without weights behind a convolution of single
/// elements.
struct Volume {
  OnnxFile file;
  OnnxFile& through(const std::string& op, const std::vector<std::string>& more = {}) {
    file.input("x", {"N", std::int64_t{4}, std::int64_t{6}, std::int64_t{8}, std::int64_t{8}});
    if (more.empty()) file.weight("k", {4, 4, 1, 1, 1}).node("Conv", {"x", "k"}, {"c"});
    std::vector<std::string> inputs{more.empty() ? "c" : "x"};
    inputs.insert(inputs.end(), more.begin(), more.end());
    return file.node(op, inputs, {"y"}).output("y");
  }
  Graph graph() const {
    ModelConfig config = model_of(file);
    config.loss = ImportedLoss::kMeanSquare;
    return build_onnx_graph(config, {.microbatch = 2}).graph;
  }
};

Shape result(const Graph& graph) { return graph.tensors[graph.ops.back().inputs[0]].shape; }

}  // namespace

TEST_CASE("a convolution of three dims is a product of its windows' frames") {
  const auto convolved = [](const Numbers& window, const Numbers& strides, const Numbers& pads,
                            const Numbers& dilations, std::int64_t groups) {
    Volume of;
    of.file.weight("w", {6, 4 / groups, window[0], window[1], window[2]}).weight("b", {6});
    OnnxFile& node = of.through("Conv", {"w", "b"}).set("group", groups);
    node.set("kernel_shape", window).set("strides", strides).set("pads", pads);
    node.set("dilations", dilations);
    return of.graph();
  };
  // 6 frames and one more on each side: windows of 3 at every second frame are (8 - 3) / 2 + 1 = 3;
  // rows and columns as many as there are. Each of 2 x 6 x 3 x 8 x 8 results is 4 / 2 x 3 x 3 x 3
  // products.
  const Graph strided = convolved({3, 3, 3}, {2, 1, 1}, {1, 1, 1, 1, 1, 1}, {1, 1, 1}, 2);
  CHECK(result(strided) == Shape{2, 6, 3, 8, 8});
  CHECK(strided.model_flop_per_microbatch == 2.0 * (2 * 6 * 3 * 8 * 8) * (2 * 3 * 3 * 3));
  CHECK(parameters(strided) == std::vector<std::string>{"w", "b"});
  CHECK(strided.parameters[ParameterId(0)].shape == Shape{6, 2, 3, 3, 3});
  // Windows one behind the other need no frame twice: 6 / 2 of them, and the last of 6 / 4 is half.
  const Graph patches = convolved({2, 4, 4}, {2, 4, 4}, {0, 0, 0, 0, 0, 0}, {1, 1, 1}, 1);
  CHECK(result(patches) == Shape{2, 6, 3, 2, 2});
  for (const Op& op : patches.ops) CHECK(op.kind != OpKind::kConcat);
  CHECK(result(convolved({4, 1, 1}, {4, 1, 1}, {0, 0, 0, 0, 0, 0}, {1, 1, 1}, 1)) ==
        Shape{2, 6, 1, 8, 8});
  // Two frames apart: windows of 3 reach over 5.
  CHECK(result(convolved({3, 1, 1}, {1, 1, 1}, {0, 0, 0, 0, 0, 0}, {2, 1, 1}, 1)) ==
        Shape{2, 6, 2, 8, 8});
  CHECK(problems_of([&] {
          convolved({7, 1, 1}, {1, 1, 1}, {0, 0, 0, 0, 0, 0}, {1, 1, 1}, 1);
        }) == "m.onnx: node 'y' (Conv): has no window in the image");
}

TEST_CASE("pools of three dims go over frames as over rows") {
  const auto pooled = [](const std::string& op, const Numbers& window, const Numbers& pads) {
    Volume of;
    of.through(op).set("kernel_shape", window).set("strides", window).set("pads", pads);
    return of.graph();
  };
  CHECK(result(pooled("MaxPool", {3, 2, 4}, {0, 0, 0, 0, 0, 0})) == Shape{2, 4, 2, 4, 2});
  // One frame on each side: (6 + 2) / 2 windows.
  CHECK(result(pooled("AveragePool", {2, 2, 2}, {1, 0, 0, 1, 0, 0})) == Shape{2, 4, 4, 4, 4});
  Volume all;
  all.through("GlobalAveragePool");
  CHECK(result(all.graph()) == Shape{2, 4, 1, 1, 1});
}

TEST_CASE("transposed convolutions of three dims whose windows overlap along frames are refused") {
  const auto made = [](std::int64_t window, std::int64_t stride) {
    Volume of;
    of.file.weight("w", {4, 3, window, 2, 2}).weight("b", {3});
    of.through("ConvTranspose", {"w", "b"})
        .set("kernel_shape", Numbers{window, 2, 2})
        .set("strides", Numbers{stride, 2, 2});
    return of.graph();
  };
  CHECK(result(made(3, 3)) == Shape{2, 3, 18, 16, 16});
  CHECK(problems_of([&] { made(3, 2); }) ==
        "m.onnx: node 'y' (ConvTranspose): has windows that overlap or are padded along frames, "
        "which is not modelled");
}

}  // namespace trainyard::onnx_volumes_test
