// Which weights of an ONNX file are parameters, and which buffers, that stay as they are.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "tests/models/onnx/onnx_files.h"

namespace trainyard::onnx_buffers_test {

TEST_CASE("numbers that the source of a model has are no parameters") {
  OnnxFile file;
  file.input("x", {"N", std::int64_t{4}}).weight("lifted_tensor_0", {4}, {1, 2, 3, 4});
  file.weight("block._tensor_constant1", {4, 3}, std::vector<float>(12, 0.5F));
  file.weight("bias", {4}).node("Mul", {"x", "lifted_tensor_0"}, {"s"});
  file.node("Add", {"s", "bias"}, {"a"}).node("MatMul", {"a", "block._tensor_constant1"}, {"y"});
  CHECK(parameters(graph_of(file.output("y")).graph) == std::vector<std::string>{"bias"});
}

TEST_CASE("masks that are compared, and sines and cosines of positions, are no parameters") {
  const auto kept = [](const std::vector<float>& mask, const std::vector<float>& table) {
    OnnxFile file;
    file.input("x", {"N", std::int64_t{3}, std::int64_t{4}}).weight("tril", {1, 3, 4}, mask);
    file.weight("pe", {1, 3, 4}, table).weight("zero", {1}, {0}).weight("low", {1}, {-9});
    file.node("Equal", {"tril", "zero"}, {"hidden"}).node("Add", {"x", "pe"}, {"a"});
    file.node("Where", {"hidden", "low", "a"}, {"w"}).weight("fc", {4, 3});
    file.node("MatMul", {"w", "fc"}, {"y"}).output("y");
    return parameters(graph_of(file).graph);
  };
  const std::vector<float> mask{1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0};
  const auto angles = [](bool halves) {  // of positions 0, 1, 2 at frequencies 1 and 0.1
    std::vector<float> table;
    for (const float t : {0.F, 1.F, 2.F}) {
      const float s = std::sin(t), c = std::cos(t), s2 = std::sin(t / 10), c2 = std::cos(t / 10);
      for (const float x : halves ? std::vector{s, s2, c, c2} : std::vector{s, c, s2, c2})
        table.push_back(x);
    }
    return table;
  };
  using Names = std::vector<std::string>;
  CHECK(kept(mask, angles(false)) == Names{"fc"});
  CHECK(kept(mask, angles(true)) == Names{"fc"});
  std::vector<float> trained = angles(false);
  trained[5] += 0.001F;
  CHECK(kept(mask, trained) == Names{"pe", "fc"});
  CHECK(kept(mask, std::vector<float>(12, 0.F)) == Names{"pe", "fc"});
  // Rows that are all alike are no angles.
  CHECK(kept(mask, {0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1}) == Names{"pe", "fc"});
}

TEST_CASE("tensors that the study calls buffers are no parameters, whatever reads them") {
  OnnxFile file;
  file.input("x", {"N", std::int64_t{4}}).weight("window", {4}, {0.5F, 1, 1, 0.5F});
  file.weight("filters.fixed", {4, 3}, std::vector<float>(12, 0.25F)).weight("fc", {3, 2});
  file.node("Mul", {"x", "window"}, {"w"}).node("MatMul", {"w", "filters.fixed"}, {"f"});
  file.node("MatMul", {"f", "fc"}, {"y"}).output("y");
  const auto left = [&](const std::vector<std::string>& buffers) {
    ModelConfig config = model_of(file);
    config.onnx = with_buffers(std::move(config.onnx), buffers);
    const Graph graph = build_onnx_graph(config, {.microbatch = 2}).graph;
    CHECK(find_violation(graph) == "");
    return parameters(graph);
  };
  using Names = std::vector<std::string>;
  CHECK(left({}) == Names{"window", "filters.fixed", "fc"});
  CHECK(left({"window"}) == Names{"filters.fixed", "fc"});
  CHECK(left({"*.fixed", "w*"}) == Names{"fc"});
  CHECK(problems_of([&] {
          left({"window", "windows"});
        }) == "model.buffers: no tensor of m.onnx is called 'windows' (did you mean window?)");
  CHECK(problems_of([&] { left({"fc"}); }) ==
        "model.buffers: 'fc' has no elements in m.onnx or beside it, and what is not trained is "
        "what the file holds");
}

TEST_CASE("buffers that leave nothing to train are refused") {
  OnnxFile file;
  file.input("x", {"N", std::int64_t{4}}).weight("w", {4}, {0.5F, 1, 1, 0.5F});
  file.node("Mul", {"x", "w"}, {"y"}).output("y");
  ModelConfig config = model_of(file);
  config.onnx = with_buffers(std::move(config.onnx), {"*"});
  CHECK(problems_of([&] { build_onnx_graph(config, {.microbatch = 2}); }) ==
        "model.buffers: names every tensor of m.onnx that could be trained");
}

TEST_CASE("a model that nobody else has takes its buffers without a copy") {
  OnnxFile file;
  file.input("x", {"N", std::int64_t{4}}).weight("b", {4}).node("Add", {"x", "b"}, {"y"});
  std::shared_ptr<const OnnxModel> model = parse_onnx(file.output("y").bytes(), "m.onnx");
  const OnnxModel* at = model.get();
  model = with_buffers(std::move(model), {"b"});
  CHECK(model.get() == at);
  const std::shared_ptr<const OnnxModel> other = with_buffers(model, {});
  CHECK(other.get() != at);
  CHECK(model->buffers == std::vector<std::string>{"b"});
}

TEST_CASE("norms and convolutions whose weights are buffers are taken in steps") {
  OnnxFile file;
  file.input("x", {"N", std::int64_t{4}, std::int64_t{6}, std::int64_t{6}});
  file.weight("scale", {4}, {1, 1, 1, 1}).weight("shift", {4}, {0, 0, 0, 0});
  file.weight("kernel", {4, 4, 1, 1}, std::vector<float>(16, 0.5F)).weight("bias", {4});
  file.node("Conv", {"x", "kernel", "bias"}, {"c"});
  file.weight("mean", {4}).weight("var", {4});
  file.node("BatchNormalization", {"c", "scale", "shift", "mean", "var"}, {"y"}).output("y");
  ModelConfig config = model_of(file);
  config.loss = ImportedLoss::kMeanSquare;
  config.onnx = with_buffers(std::move(config.onnx), {"scale", "shift", "kernel"});
  const Graph graph = build_onnx_graph(config, {.microbatch = 2}).graph;
  CHECK(parameters(graph) == std::vector<std::string>{"bias"});
  // The bias behind the convolution; x - mean, its square's mean, and 1 / sqrt of that plus eps.
  CHECK(kinds(graph) == std::vector<std::string>{"conv2d", "view", "add", "sum", "affine", "sub",
                                                 "power", "sum", "affine", "affine", "power", "mul",
                                                 "mse"});
  config.batch_norm = BatchNorm::kSynchronised;
  CHECK(problems_of([&] { build_onnx_graph(config, {.microbatch = 2}); }).find("batch_norm") !=
        std::string::npos);
}

}  // namespace trainyard::onnx_buffers_test
