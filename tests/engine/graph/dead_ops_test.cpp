#include "engine/graph/dead_ops.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/graph/graph_builder.h"

namespace trainyard::dead_ops_test {

namespace {

std::vector<std::string> names(const Graph& graph) {
  std::vector<std::string> out;
  for (const Tensor& tensor : graph.tensors) out.push_back(tensor.name);
  return out;
}

/// x [2, 3] -> linear of 4 -> loss; with `more`, beside it a constant, an input and a parameter
/// that lead nowhere.
Graph classifier(bool more) {
  GraphBuilder builder("small", DType::kBf16);
  const TensorId x = builder.input("x", {2, 3}, DType::kBf16);
  if (more) {
    const TensorId scale = builder.constant(
        "scale", {3}, DType::kBf16, real_constant([](std::span<double> out) { out[0] = 2; }));
    const TensorId scaled = builder.mul("aside", x, scale);
    const TensorId y = builder.linear("aside", scaled, 5, false, SplitHint::kNone);
    builder.add("aside", y, builder.input("shift", {5}, DType::kBf16));
  }
  const TensorId logits = builder.linear("head", x, 4, true, SplitHint::kNone);
  if (more) builder.activation("behind", OpKind::kRelu, logits);
  const TensorId labels = builder.input("labels", {2}, DType::kInt64);
  return builder.finish(builder.cross_entropy("loss", logits, labels));
}

}  // namespace

TEST_CASE("what the loss does not depend on is dropped, and nothing else") {
  Graph graph = classifier(true);
  // Products of 2 rows: 3 x 5 beside, and 3 x 4.
  CHECK(graph.model_flop_per_microbatch == 2.0 * 2 * 3 * (5 + 4));
  CHECK_FALSE(find_violation(graph).empty());
  CHECK(drop_dead_ops(graph) ==
        std::vector<std::string>{"aside.mul", "aside.linear", "aside.add", "behind.relu"});
  CHECK(find_violation(graph).empty());
  const Graph alone = classifier(false);
  CHECK(names(graph) == names(alone));
  CHECK(graph.constants.empty());
  CHECK(graph.model_flop_per_microbatch == 2.0 * 2 * 3 * 4);
  REQUIRE(graph.parameters.size() == 2);
  for (const Parameter& parameter : graph.parameters)
    CHECK(graph.tensors[parameter.tensor].name == parameter.name);
  CHECK(drop_dead_ops(graph).empty());
}

}  // namespace trainyard::dead_ops_test
