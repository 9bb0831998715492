// GPT: published parameter counts, Megatron's FLOP formula, and one layer read line by line.
#include <catch2/catch.hpp>

#include "engine/plan/model_config.h"
#include "models/model.h"
#include "models/presets.h"
#include "tests/models/graph_text.h"

namespace trainyard::gpt_test {

namespace {

Graph build(const std::string& preset, const BuildOptions& options = {}) {
  return build_model(find_model_preset(preset)->config, options);
}

ModelConfig tiny_gpt() {
  ModelConfig c;
  c.family = Family::kGpt;
  c.layers = 2;
  c.hidden = 8;
  c.heads = 2;
  c.kv_heads = 2;
  c.head_dim = 4;
  c.ffn = 32;
  c.vocab = 11;
  c.seq_len = 4;
  c.max_positions = 6;
  return c;
}

}  // namespace

TEST_CASE("GPT-2 has the published number of parameters, with and without its tied head") {
  // V h + P h + L (12 h^2 + 13 h) + 2 h, the 13 h being biases 3h + h + 4h + h and two norms of 2h.
  // small: 50257 x 768 + 1024 x 768 + 12 x (12 x 768^2 + 13 x 768) + 2 x 768 = 124,439,808.
  const auto [preset, count] = GENERATE(table<std::string, std::int64_t>({
      {"gpt2", 124'439'808},
      {"gpt2-medium", 354'823'168},
      {"gpt2-large", 774'030'080},
      {"gpt2-xl", 1'557'611'200},
  }));
  CAPTURE(preset);
  const ParameterCount counted = count_parameters(build(preset));
  CHECK(counted.base == count);
  CHECK(counted.with_head == count);
}

TEST_CASE(
    "Megatron's sizes have 12 L h^2 (1 + 13/12h + (V+s)/12Lh) parameters and the final norm") {
  for (const ModelPreset& preset : model_presets()) {
    const ModelConfig& c = preset.config;
    if (c.family != Family::kGpt || !preset.name.starts_with("gpt") || c.max_positions == 0)
      continue;
    CAPTURE(preset.name);
    const std::int64_t formula = 12 * c.layers * c.hidden * c.hidden + 13 * c.layers * c.hidden +
                                 (c.vocab + c.seq_len) * c.hidden;
    CHECK(count_parameters(build(preset.name)).base == formula + 2 * c.hidden);
  }
}

TEST_CASE("the FLOP of a GPT's forward pass are 24 B s L h^2 (1 + s/6h + V/12Lh)") {
  ModelConfig c = tiny_gpt();
  c.layers = GENERATE(1, 3, 24);
  c.hidden = GENERATE(64, 1024);
  c.heads = 4;
  c.kv_heads = 4;
  c.head_dim = c.hidden / 4;
  c.ffn = 4 * c.hidden;
  c.vocab = GENERATE(1000, 50257);
  c.seq_len = GENERATE(16, 2048);
  c.max_positions = c.seq_len;
  c.pad_vocab_to = GENERATE(0, 51200);  // padding is not work of the model
  const std::int64_t batch = GENERATE(1, 4);
  const auto B = static_cast<double>(batch), s = static_cast<double>(c.seq_len),
             L = static_cast<double>(c.layers), h = static_cast<double>(c.hidden),
             V = static_cast<double>(c.vocab);
  const Graph graph = build_model(c, {.microbatch = batch});
  CHECK(graph.model_flop_per_microbatch ==
        Approx(24 * B * s * L * h * h * (1 + s / (6 * h) + V / (12 * L * h))).epsilon(1e-12));
}

TEST_CASE("a GPT layer is attention and MLP, each behind a norm and added to what came in") {
  const Graph graph = build_model(tiny_gpt(), {.microbatch = 3, .dropout = 0.1});
  CHECK(layer_text(graph, 1, "decoder.layers.1.") ==
        "norm_1.layer_norm <- decoder.layers.0.add:1, norm_1.weight, norm_1.bias\n"
        "attention.qkv.linear <- norm_1.layer_norm, attention.qkv.weight, attention.qkv.bias\n"
        "attention.attention <- attention.qkv.linear\n"
        "attention.proj.linear <- attention.attention, attention.proj.weight, "
        "attention.proj.bias\n"
        "attention.dropout <- attention.proj.linear\n"
        "add <- decoder.layers.0.add:1, attention.dropout\n"
        "norm_2.layer_norm <- add, norm_2.weight, norm_2.bias\n"
        "mlp.fc1.linear <- norm_2.layer_norm, mlp.fc1.weight, mlp.fc1.bias\n"
        "mlp.gelu <- mlp.fc1.linear\n"
        "mlp.fc2.linear <- mlp.gelu, mlp.fc2.weight, mlp.fc2.bias\n"
        "mlp.dropout <- mlp.fc2.linear\n"
        "add:1 <- add, mlp.dropout\n");
  const Tensor& qkv = tensor_of(graph, find_tensor(graph, "decoder.layers.1.attention.qkv.linear"));
  CHECK(qkv.shape == Shape{3, 4, 24});
}

TEST_CASE("without dropout a GPT has no dropout op") {
  CHECK(num_ops(build_model(tiny_gpt(), {}), OpKind::kDropout) == 0);
  // Embedding, and after attention and MLP of both layers.
  CHECK(num_ops(build_model(tiny_gpt(), {.dropout = 0.1}), OpKind::kDropout) == 5);
}

TEST_CASE("a GPT's token table is also its LM head, unless untied") {
  ModelConfig c = tiny_gpt();
  const Graph tied = build_model(c, {});
  CHECK(num_readers(tied, find_tensor(tied, "embedding.tokens.weight")) == 2);
  c.tied_embeddings = false;
  const Graph untied = build_model(c, {});
  const ParameterCount count = count_parameters(untied);
  CHECK(count.with_head == count.base + c.vocab * c.hidden);
  CHECK(count.base == count_parameters(tied).base);
}

TEST_CASE("a padded vocabulary widens the table and the logits but not the counts") {
  ModelConfig c = tiny_gpt();
  c.pad_vocab_to = 16;
  const Graph graph = build_model(c, {});
  CHECK(tensor_of(graph, find_tensor(graph, "embedding.tokens.weight")).shape == Shape{16, 8});
  CHECK(tensor_of(graph, find_tensor(graph, "lm_head.linear")).shape == Shape{1, 4, 16});
  CHECK(count_parameters(graph).base == count_parameters(build_model(tiny_gpt(), {})).base);
}

}  // namespace trainyard::gpt_test
