// Mamba-2 holds the parameters of the published models, and does the products of the chunked scan.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "models/model.h"
#include "models/presets.h"
#include "tests/models/problem_text.h"

namespace trainyard {

namespace {

/// One layer of 6 heads of 4 channels, each with a state of 5.
ModelConfig small(std::int64_t seq_len, std::int64_t chunk_size) {
  ModelConfig config;
  config.family = Family::kMamba2;
  config.layers = 1, config.hidden = 12, config.head_dim = 4, config.vocab = 30;
  config.state_size = 5, config.conv_width = 3, config.expand = 2;
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
  const double within = 3 * 4 * 4 * (5 + 24.0);  // scores of all heads, context of each channel
  const double between = 2 * (4 * 5 * 24.0) * 2 + 6 * 2 * 2 * (5 * 4.0);  // of two chunks of three
  const double head = 12 * 12 * 30.0;
  CHECK(graph.model_flop_per_microbatch ==
        2 * 3 * (projections + convolution + within + between + head));
}

TEST_CASE("how many ops a layer of Mamba-2 has does not depend on tokens or chunks") {
  const auto ops = [](std::int64_t seq_len, std::int64_t chunk_size) {
    return build_model(small(seq_len, chunk_size), {}).ops.size();
  };
  CHECK(ops(64, 2) == ops(8, 4));
  CHECK(ops(4096, 16) == ops(8, 4));
  CHECK(ops(8, 8) < ops(8, 4));     // one chunk has none before it
  CHECK(ops(8, 256) == ops(8, 8));  // and is no longer than the sequence
}

TEST_CASE("constants of Mamba-2 are triangles") {
  const Graph graph = build_model(small(12, 4), {});
  CHECK(graph.constants.size() == 4);  // of 4 tokens of a chunk, and of 2 chunks before others
  std::vector<double> behind(4), from(4);
  graph.constants.at("behind.2")->fill(behind);
  graph.constants.at("from.2")->fill(from);
  CHECK(behind == std::vector<double>{0, 0, 1, 0});
  CHECK(from == std::vector<double>{1, 0, 1, 1});
}

TEST_CASE("sizes that Mamba-2 cannot have are refused") {
  CHECK(problem_after([](ModelConfig&) {}) == "none");
  CHECK(problem_after([](ModelConfig& c) { c.head_dim = 5; }) ==
        "head_dim: heads of 5 channels do not fill expand x hidden, 24");
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

}  // namespace trainyard
