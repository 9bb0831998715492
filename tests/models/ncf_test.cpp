// NeuMF holds the parameters and does the multiplications of the same model in PyTorch.
#include <catch2/catch.hpp>
#include <string>

#include "models/model.h"
#include "models/presets.h"
#include "tests/models/problem_text.h"

namespace trainyard::ncf_test {

namespace {

ModelConfig small() {
  ModelConfig config;
  config.family = Family::kNcf;
  config.layers = 3, config.hidden = 4, config.users = 9, config.items = 7;
  set_image_numbers(config);
  return config;
}

std::string problem_after(void (*change)(ModelConfig&)) {
  ModelConfig config = small();
  change(config);
  return problem_text(config);
}

}  // namespace

TEST_CASE("a model of users and items has PyTorch's parameters and FLOP") {
  // tests/oracle/plain_models.py, torch 2.11.0: numel() of the weights, and FlopCounterMode over
  // the forward pass of one pair. By hand for 8 factors: (6040 + 3706)(32 + 8) of tables, 64 x 32 +
  // 32 x 16 + 16 x 8 weights and 56 biases of the tower, 16 + 1 of the head.
  const auto [preset, parameters, flop] = GENERATE(table<const char*, std::int64_t, double>(
      {{"ncf-ml-1m", 392'601, 5'408}, {"ncf-ml-20m", 53'048'449, 344'320}}));
  CAPTURE(preset);
  const Graph graph = build_model(find_model_preset(preset)->config, {.microbatch = 5});
  CHECK(count_parameters(graph).with_head == parameters);
  CHECK(graph.model_flop_per_microbatch / 5 == flop);
}

TEST_CASE("tables of the tower lie at the beginning, those of the factors at the end") {
  const Graph graph = build_model(small(), {.microbatch = 2});
  CHECK(find_violation(graph) == "");
  CHECK(graph.num_layers == 3);
  std::string order;  // "t", "f": rows of the tower, of the factors; digits: layers
  for (const Op& op : graph.ops) {
    if (op.kind == OpKind::kEmbedding)
      order += graph.modules[op.module].starts_with("tower") ? "t" : "f";
    if (op.kind == OpKind::kLinear && op.layer >= 0) order += std::to_string(op.layer);
  }
  CHECK(order == "tt012ff");
}

TEST_CASE("users, items and layers that a model cannot have are refused") {
  CHECK(problem_after([](ModelConfig&) {}) == "none");
  CHECK(problem_after([](ModelConfig& c) { c.users = 0; }) == "users: expected at least 1, got 0");
  CHECK(problem_after([](ModelConfig& c) { c.items = -1; }) ==
        "items: expected at least 1, got -1");
  CHECK(problem_after([](ModelConfig& c) { c.layers = 0; }) ==
        "layers: expected at least 1, got 0");
  CHECK(problem_after([](ModelConfig& c) { c.layers = 28; }) == "none");
  // 4 x 2^28 = 2^30 is as wide as anything may be.
  CHECK(problem_after([](ModelConfig& c) { c.layers = 29; }) ==
        "layers: 29 layers, each half as wide as the one before it, down to 4: the first would be "
        "too wide; expected at most 28");
}

}  // namespace trainyard::ncf_test
