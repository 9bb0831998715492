// Which weights of an ONNX file are parameters, and which buffers, that stay as they are.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "tests/models/onnx/onnx_files.h"

namespace trainyard {

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

}  // namespace trainyard
