// T5: published parameter counts, and how encoder, decoder and relative biases hang together.
#include <catch2/catch.hpp>

#include "models/model.h"
#include "models/presets.h"
#include "tests/models/graph_text.h"

namespace trainyard::t5_test {

namespace {

Graph build(const std::string& preset) {
  return build_model(find_model_preset(preset)->config, {.dropout = 0.1});
}

}  // namespace

TEST_CASE("T5 has the published number of parameters") {
  // With i = heads x head dim: V h, the encoder L (4 h i + 2 h f + 2 h) + 32 N + h, and the decoder
  // L (8 h i + 2 h f + 3 h) + 32 N + h. Small (h = i = 512, f = 2048, N = 8, L = 6):
  // 16,449,536 + 18,881,280 + 25,175,808 = 60,506,624.
  const auto [preset, count] = GENERATE(table<std::string, std::int64_t>({
      {"t5-small", 60'506'624},
      {"t5-base", 222'903'552},
      {"t5-large", 737'668'096},
      {"t5-3b", 2'851'598'336},
      {"t5-11b", 11'307'321'344},
  }));
  CAPTURE(preset);
  const ParameterCount counted = count_parameters(build(preset));
  CHECK(counted.base == count);
  CHECK(counted.with_head == count);
}

TEST_CASE("T5's FLOP count encoder, decoder, cross-attention and head") {
  // t5-11b, b = 1, s = 512 both sides, h = 1024, i = 16384, f = 65536, L = 24, V = 32128:
  // per layer 8 s h i + 4 s h f + 4 s^2 i in the encoder, twice the attention in the decoder.
  const double s = 512, h = 1024, i = 16384, f = 65536, layers = 24, vocab = 32128;
  const double attention = 8 * s * h * i + 4 * s * s * i;
  const double mlp = 4 * s * h * f;
  CHECK(build("t5-11b").model_flop_per_microbatch ==
        Approx(layers * (3 * attention + 2 * mlp) + 2 * s * h * vocab).epsilon(1e-12));
}

TEST_CASE("a T5 decoder layer attends to itself, then to the encoder") {
  CHECK(layer_text(build("t5-small"), 7, "decoder.layers.1.") ==
        "norm_1.rms_norm <- decoder.layers.0.add:2, norm_1.weight\n"
        "self_attention.qkv.linear <- norm_1.rms_norm, self_attention.qkv.weight\n"
        "self_attention.attention <- self_attention.qkv.linear, "
        "decoder.layers.0.self_attention.relative_bias.relative_bias\n"
        "self_attention.proj.linear <- self_attention.attention, self_attention.proj.weight\n"
        "self_attention.dropout <- self_attention.proj.linear\n"
        "add <- decoder.layers.0.add:2, self_attention.dropout\n"
        "norm_2.rms_norm <- add, norm_2.weight\n"
        "cross_attention.q.linear <- norm_2.rms_norm, cross_attention.q.weight\n"
        "cross_attention.kv.linear <- encoder.dropout, cross_attention.kv.weight\n"
        "cross_attention.attention <- cross_attention.q.linear, cross_attention.kv.linear, mask\n"
        "cross_attention.proj.linear <- cross_attention.attention, cross_attention.proj.weight\n"
        "cross_attention.dropout <- cross_attention.proj.linear\n"
        "add:1 <- add, cross_attention.dropout\n"
        "norm_3.rms_norm <- add:1, norm_3.weight\n"
        "mlp.fc1.linear <- norm_3.rms_norm, mlp.fc1.weight\n"
        "mlp.relu <- mlp.fc1.linear\n"
        "mlp.dropout <- mlp.relu\n"
        "mlp.fc2.linear <- mlp.dropout, mlp.fc2.weight\n"
        "mlp.dropout:1 <- mlp.fc2.linear\n"
        "add:2 <- add:1, mlp.dropout:1\n");
}

TEST_CASE("every T5 decoder layer reads the encoder's output, every layer its stack's bias") {
  const Graph graph = build("t5-small");
  CHECK(num_readers(graph, find_tensor(graph, "encoder.dropout")) == 6);
  for (const char* stack : {"encoder", "decoder"}) {
    const std::string name =
        std::string(stack) + ".layers.0.self_attention.relative_bias.relative_bias";
    CHECK(num_readers(graph, find_tensor(graph, name)) == 6);
  }
  CHECK(num_ops(graph, OpKind::kRelativeBias) == 2);
}

TEST_CASE("T5's layers run from the encoder's through the decoder's, ends included") {
  const Graph graph = build("t5-small");
  CHECK(graph.num_layers == 12);
  const auto layer_of = [&](std::string_view tensor) {
    const OpId producer = tensor_of(graph, find_tensor(graph, tensor)).producer;
    return graph.ops[producer].layer;
  };
  CHECK(layer_of("embedding.tokens.embedding") == -1);
  CHECK(layer_of("encoder.final_norm.rms_norm") == 5);
  CHECK(layer_of("decoder.embedding.tokens.embedding") == 6);
  CHECK(layer_of("decoder.final_norm.rms_norm") == -1);
}

TEST_CASE("T5's shared table embeds both sides and is the LM head, scaled by 1/sqrt(h)") {
  const Graph graph = build("t5-small");
  CHECK(num_readers(graph, find_tensor(graph, "embedding.tokens.weight")) == 3);
  const OpId head = tensor_of(graph, find_tensor(graph, "lm_head.linear")).producer;
  CHECK(graph.ops[head].attrs->scale == Approx(1 / std::sqrt(512.0)));
}

TEST_CASE("T5 1.1 has a gated MLP and an LM head of its own") {
  ModelConfig config = find_model_preset("t5-small")->config;
  config.activation = Activation::kGeglu;
  config.tied_embeddings = false;
  const Graph graph = build_model(config, {});
  CHECK(num_ops(graph, OpKind::kGeglu) == 12);
  // Each of 12 layers gains a gate of 512 x 2048; the head is one more table.
  const ParameterCount count = count_parameters(graph);
  CHECK(count.base == 60'506'624 + 12 * 512 * 2048);
  CHECK(count.with_head == count.base + 32128 * 512);
}

}  // namespace trainyard::t5_test
