// What holds for every model: well-formed graphs, ordered layers, unique names, and what a
// configuration that cannot be built is told.
#include "models/model.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <set>

#include "engine/base/error.h"
#include "models/presets.h"
#include "tests/models/graph_text.h"
#include "tests/models/problem_text.h"

namespace trainyard::model_test {

namespace {

double dropout_of(Family family) { return has_dropout(family) ? 0.1 : 0; }

std::string problem_after(const std::string& preset,
                          const std::function<void(ModelConfig&)>& change) {
  ModelConfig config = find_model_preset(preset)->config;
  change(config);
  return problem_text(config);
}

}  // namespace

TEST_CASE("every preset builds a well-formed graph") {
  for (const ModelPreset& preset : model_presets()) {
    CAPTURE(preset.name);
    const ModelConfig& config = preset.config;
    const Graph graph =
        build_model(config, {.microbatch = std::max<std::int64_t>(1, config.contrast),
                             .dropout = dropout_of(config.family)});
    CHECK(find_violation(graph).empty());
    CHECK(graph.name == preset.name);
    CHECK(graph.num_layers == num_layers(config));
    CHECK(graph.model_flop_per_microbatch > 0);
    CHECK(find_model_preset(preset.name) == &preset);
  }
  CHECK(find_model_preset("gpt5") == nullptr);
}

TEST_CASE("embeddings come before the first layer, the head after the last") {
  const std::string preset = GENERATE("gpt2", "bert-base", "t5-base", "llama2-7b");
  CAPTURE(preset);
  const Graph graph = build_model(find_model_preset(preset)->config, {});
  CHECK(graph.ops.front().kind == OpKind::kEmbedding);
  CHECK(graph.ops.front().layer == -1);
  CHECK(graph.ops.back().kind == OpKind::kCrossEntropy);
  CHECK(graph.ops.back().layer == -1);
  std::vector<std::int32_t> runs;  // layers in the order in which they start
  for (const Op& op : graph.ops) {
    if (runs.empty() || runs.back() != op.layer) runs.push_back(op.layer);
  }
  std::vector<std::int32_t> expected = {-1};
  for (std::int32_t i = 0; i < graph.num_layers; ++i) expected.push_back(i);
  expected.push_back(-1);
  CHECK(runs == expected);
}

TEST_CASE("tensors have names of their own") {
  const std::string preset = GENERATE("gpt2", "bert-base", "t5-base", "llama2-7b");
  CAPTURE(preset);
  const ModelConfig& config = find_model_preset(preset)->config;
  const Graph graph = build_model(config, {.dropout = dropout_of(config.family)});
  std::set<std::string> names;
  for (const Tensor& tensor : graph.tensors) {
    CAPTURE(tensor.name);
    CHECK(names.insert(tensor.name).second);
  }
}

TEST_CASE("a microbatch scales activations and work, not parameters") {
  const ModelConfig& config = find_model_preset("gpt2")->config;
  const Graph one = build_model(config, {.microbatch = 1});
  const Graph four = build_model(config, {.microbatch = 4});
  CHECK(four.model_flop_per_microbatch == 4 * one.model_flop_per_microbatch);
  CHECK(count_parameters(four).base == count_parameters(one).base);
  CHECK(tensor_of(four, find_tensor(four, "lm_head.linear")).shape == Shape{4, 1024, 50257});
}

TEST_CASE("weights and activations take the compute type, losses and statistics fp32") {
  const Graph graph = build_model(find_model_preset("gpt2")->config, {.compute = DType::kFp16});
  CHECK(tensor_of(graph, find_tensor(graph, "lm_head.linear")).dtype == DType::kFp16);
  CHECK(tensor_of(graph, find_tensor(graph, "embedding.tokens.weight")).dtype == DType::kFp16);
  CHECK(tensor_of(graph, find_tensor(graph, "decoder.final_norm.statistics")).dtype ==
        DType::kFp32);
  CHECK(tensor_of(graph, graph.loss).dtype == DType::kFp32);
}

TEST_CASE("a configuration that cannot be built says which key and what would work") {
  CHECK(problem_after("gpt2", [](ModelConfig&) {}) == "none");
  CHECK(problem_after("gpt2", [](ModelConfig& c) { c.layers = 0; }) ==
        "layers: expected at least 1, got 0");
  CHECK(problem_after("gpt2", [](ModelConfig& c) { c.layers = 100'001; }) ==
        "layers: expected at most 100000, got 100001");
  CHECK(problem_after("gpt2", [](ModelConfig& c) { c.vocab = std::int64_t{1} << 62; }) ==
        "vocab: expected at most 1073741824, got 4611686018427387904");
  CHECK(problem_after("gpt2", [](ModelConfig& c) { c.seq_len = 2048; }) ==
        "seq_len: expected at most max_positions, 1024, got 2048");
  CHECK(problem_after("gpt2", [](ModelConfig& c) { c.pad_vocab_to = 50000; }) ==
        "pad_vocab_to: expected at least vocab, 50257, got 50000");
  CHECK(problem_after("gpt2", [](ModelConfig& c) { c.next_sentence = true; }) ==
        "next_sentence: only bert has a next-sentence head");
  CHECK(problem_after("bert-base", [](ModelConfig& c) { c.token_types = 0; }) ==
        "token_types: expected at least 1, got 0");
  CHECK(problem_after("t5-base", [](ModelConfig& c) { c.decoder_layers = 0; }) ==
        "decoder_layers: expected at least 1, got 0");
  CHECK(problem_after("t5-base", [](ModelConfig& c) { c.kv_heads = 4; }) ==
        "kv_heads: t5 has as many as heads, 12, got 4");
  CHECK(problem_after("llama3-8b", [](ModelConfig& c) { c.kv_heads = 5; }) ==
        "kv_heads: 5 does not divide heads, 32");
  CHECK(problem_after("llama3-8b", [](ModelConfig& c) { c.head_dim = 65; }) ==
        "head_dim: rotary positions turn pairs; expected an even number, got 65");
}

TEST_CASE("options out of range and tensors too large are refused") {
  ModelConfig config = find_model_preset("gpt2")->config;
  CHECK_THROWS_WITH(build_model(config, {.microbatch = 0}),
                    "training.microbatch: expected at least 1, got 0");
  CHECK_THROWS_AS(build_model(config, {.dropout = 1.0}), ConfigError);
  CHECK_THROWS_AS(build_model(config, {.dropout = -0.5}), ConfigError);
  config.ffn = std::int64_t{1} << 30;
  config.hidden = std::int64_t{1} << 30;
  CHECK_THROWS_WITH(build_model(config, {}), Catch::Contains("2^40"));
}

TEST_CASE("a model of many thousand layers builds in linear time") {  // quadratic: minutes
  ModelConfig config = find_model_preset("gpt2")->config;
  config.layers = 20'000;
  config.hidden = 8;
  config.heads = 1;
  config.kv_heads = 1;
  config.head_dim = 8;
  config.ffn = 8;
  CHECK(build_model(config, {}).num_layers == 20'000);
}

}  // namespace trainyard::model_test
