// Llama and its relatives: published parameter counts and one layer read line by line.
#include <catch2/catch.hpp>

#include "models/model.h"
#include "models/presets.h"
#include "tests/models/graph_text.h"

namespace trainyard::llama_test {

namespace {

Graph build(const std::string& preset) {
  return build_model(find_model_preset(preset)->config, {});
}

}  // namespace

TEST_CASE("the Llama family has the published number of parameters, LM head included") {
  // 2 V h (V h where tied) + L (h (N + 2 Nkv) H + N H h + 3 h f + 2 h) + h; Qwen2 adds
  // (N + 2 Nkv) H of biases per layer. Llama-2-7B: 2 x 32000 x 4096
  // + 32 x (4 x 4096^2 + 3 x 4096 x 11008 + 2 x 4096) + 4096 = 6,738,415,616.
  const auto [preset, count] = GENERATE(table<std::string, std::int64_t>({
      {"llama2-7b", 6'738'415'616},
      {"llama2-13b", 13'015'864'320},
      {"llama2-70b", 68'976'648'192},
      {"llama3.2-1b", 1'235'814'400},
      {"llama3-8b", 8'030'261'248},
      {"llama3-70b", 70'553'706'496},
      {"llama3-405b", 405'853'388'800},
      {"mistral-7b", 7'241'732'096},
      {"qwen2-0.5b", 494'032'768},
      {"qwen2-7b", 7'615'616'512},
      {"qwen2-72b", 72'706'203'648},
      {"llama3.1-8b", 8'030'261'248},
      // 2 H of weights for norms of heads, and two more norms of h where they are behind branches.
      {"qwen3-8b", 8'190'735'360},
      {"gemma-7b", 8'537'680'896},
      {"gemma2-9b", 9'241'705'984},
      {"phi3-mini", 3'821'079'552},
  }));
  CAPTURE(preset);
  const ModelConfig& config = find_model_preset(preset)->config;
  const ParameterCount counted = count_parameters(build(preset));
  CHECK(counted.with_head == count);
  CHECK(counted.base == (config.tied_embeddings ? count : count - config.vocab * config.hidden));
}

TEST_CASE("a Llama layer rotates queries and keys and gates its MLP") {
  CHECK(layer_text(build("llama3-8b"), 1, "decoder.layers.1.") ==
        "norm_1.rms_norm <- decoder.layers.0.add:1, norm_1.weight\n"
        "attention.qkv.linear <- norm_1.rms_norm, attention.qkv.weight\n"
        "attention.rope <- attention.qkv.linear\n"
        "attention.attention <- attention.rope\n"
        "attention.proj.linear <- attention.attention, attention.proj.weight\n"
        "add <- decoder.layers.0.add:1, attention.proj.linear\n"
        "norm_2.rms_norm <- add, norm_2.weight\n"
        "mlp.gate_up.linear <- norm_2.rms_norm, mlp.gate_up.weight\n"
        "mlp.swiglu <- mlp.gate_up.linear\n"
        "mlp.down.linear <- mlp.swiglu, mlp.down.weight\n"
        "add:1 <- add, mlp.down.linear\n");
}

TEST_CASE("grouped-query attention narrows qkv to N + 2 Nkv heads") {
  const Graph graph = build("llama3-8b");
  const Tensor& weight =
      tensor_of(graph, find_tensor(graph, "decoder.layers.0.attention.qkv.weight"));
  CHECK(weight.shape == Shape{(32 + 2 * 8) * 128, 4096});
  const OpId id =
      tensor_of(graph, find_tensor(graph, "decoder.layers.0.attention.attention")).producer;
  const OpAttrs& attrs = graph.ops[id].attrs;
  CHECK(attrs.heads == 32);
  CHECK(attrs.kv_heads == 8);
  CHECK((attrs.packed && attrs.causal));
  CHECK(attrs.rate == 0);
}

TEST_CASE("Llama refuses dropout") {
  CHECK_THROWS_WITH(build_model(find_model_preset("llama2-7b")->config, {.dropout = 0.1}),
                    "training.dropout: llama has no dropout; expected 0, got 0.100000");
}

}  // namespace trainyard::llama_test
