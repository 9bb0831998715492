// Mamba-2 holds the parameters of the published models, and does the products of a scan by chunks.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "models/model.h"
#include "models/presets.h"
#include "tests/models/problem_text.h"

namespace trainyard::mamba2_test {

namespace {

/// One layer of 6 heads of 4 channels, each with a state of 5, in one group.
ModelConfig small(std::int64_t seq_len, std::int64_t chunk_size) {
  ModelConfig config;
  config.family = Family::kMamba2;
  config.layers = 1, config.hidden = 12, config.head_dim = 4, config.vocab = 30;
  config.groups = 1, config.state_size = 5, config.conv_width = 3, config.expand = 2;
  config.seq_len = seq_len, config.chunk_size = chunk_size;
  return config;
}

std::string problem_after(void (*change)(ModelConfig&)) {
  ModelConfig config = small(12, 4);
  change(config);
  return problem_text(config);
}

}  // namespace

TEST_CASE("Mamba-2 has the published models' parameters") {
  // Mamba2ForCausalLM of transformers 4.57.1 on the meta device, with the numbers of
  // state-spaces/mamba2-*'s config.json (vocab_size 50277, padded to a multiple of 16).
  const auto [preset, parameters] = GENERATE(table<const char*, std::int64_t>({
      {"mamba2-130m", 128'989'632},
      {"mamba2-370m", 368'346'624},
      {"mamba2-780m", 780'161'280},
      {"mamba2-1.3b", 1'343'757'312},
      {"mamba2-2.7b", 2'702'599'680},
  }));
  CAPTURE(preset);
  CHECK(count_parameters(build_model(find_model_preset(preset)->config, {})).with_head ==
        parameters);
}

TEST_CASE("the chunked scan takes the products that its sizes say") {
  // Multiply-adds of one sequence of 12 tokens in chunks of 4: D = 12, E = 24, K = 5, N = 6.
  const Graph graph = build_model(small(12, 4), {.microbatch = 3});
  CHECK(find_violation(graph) == "");
  const double projections = 12 * (12.0 * (2 * 24 + 2 * 5 + 6) + 24 * 12.0);
  const double convolution = 12 * 3.0 * (24 + 2 * 5);
  const double within = 3 * 4 * 4 * (5 + 24.0);   // scores of all heads, context of each channel
  const double between = 2 * (4 * 5 * 24.0) * 2;  // of two chunks of three
  const double head = 12 * 12 * 30.0;
  CHECK(graph.model_flop_per_microbatch ==
        2 * 3 * (projections + convolution + within + between + head));
}

TEST_CASE("groups of heads have states written and read by themselves") {
  // As above with 2 groups: B and C are 2 K wide each, their scores are taken for each group, and
  // the norm is of 12 features a group, 2 numbers a token.
  ModelConfig config = small(12, 4);
  config.groups = 2;
  const Graph graph = build_model(config, {.microbatch = 3});
  CHECK(find_violation(graph) == "");
  const double projections = 12 * (12.0 * (2 * 24 + 2 * 10 + 6) + 24 * 12.0);
  const double convolution = 12 * 3.0 * (24 + 2 * 10);
  const double within = 3 * 4 * 4 * (10 + 24.0), between = 2 * (4 * 5 * 24.0) * 2;
  CHECK(graph.model_flop_per_microbatch ==
        2 * 3 * (projections + convolution + within + between + 12 * 12 * 30.0));
  const auto norm = std::find_if(graph.ops.begin(), graph.ops.end(), [](const Op& op) {
    return op.kind == OpKind::kRmsNorm && op.attrs->groups == 2;
  });
  REQUIRE(norm != graph.ops.end());
  CHECK(graph.tensors[norm->outputs[1]].shape == Shape{3, 12, 2});
}

TEST_CASE("a layer of Mamba-2 keeps what its scan reads, and no decays of pairs of tokens") {
  // Its ops do not depend on the number of tokens or chunks: projections, views, gate, convolution,
  // scan, norms and sums. The largest tensor is the logits, or what is projected: 48 + 10 + 6.
  const auto ops = [](std::int64_t seq_len, std::int64_t chunk_size) {
    return build_model(small(seq_len, chunk_size), {}).ops.size();
  };
  CHECK(ops(64, 2) == ops(8, 4));
  CHECK(ops(8, 8) == ops(8, 4));
  const Graph graph = build_model(small(64, 64), {});
  std::int64_t largest = 0;
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.role == TensorRole::kActivation)
      largest = std::max(largest, num_elements(tensor.shape));
  }
  CHECK(largest == 64 * (48 + 10 + 6));
  CHECK(graph.constants.empty());
}

TEST_CASE("sizes that Mamba-2 cannot have are refused") {
  CHECK(problem_after([](ModelConfig&) {}) == "none");
  CHECK(problem_after([](ModelConfig& c) { c.head_dim = 5; }) ==
        "head_dim: heads of 5 channels do not fill expand x hidden, 24");
  CHECK(problem_after([](ModelConfig& c) { c.groups = 4; }) ==
        "groups: 4 groups do not divide 6 heads");
  CHECK(problem_after([](ModelConfig& c) { c.groups = 0; }) ==
        "groups: expected at least 1, got 0");
  CHECK(problem_after([](ModelConfig& c) { c.chunk_size = 5; }) ==
        "seq_len: 12 tokens are no chunks of 5; a multiple of chunk_size is, or fewer");
  CHECK(problem_after([](ModelConfig& c) { c.chunk_size = 100; }) == "none");
  CHECK(problem_after([](ModelConfig& c) { c.state_size = 0; }) ==
        "state_size: expected at least 1, got 0");
  CHECK(problem_after([](ModelConfig& c) { c.conv_width = 0; }) ==
        "conv_width: expected at least 1, got 0");
  CHECK(problem_after([](ModelConfig& c) { c.expand = 0; }) ==
        "expand: expected at least 1, got 0");
}

}  // namespace trainyard::mamba2_test
