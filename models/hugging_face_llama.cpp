// Llama and its relatives in a config.json.
#include "engine/plan/plan_limits.h"
#include "models/hugging_face_parts.h"
#include "models/hugging_face_readers.h"

namespace trainyard {

namespace {

struct LlamaDefaults {
  std::int64_t vocab;
  std::int64_t ffn;
  std::int64_t kv_heads;  // 0: as many as heads
  std::int64_t max_positions;
  std::int64_t layers = 32;
  std::int64_t hidden = 4096;
  std::int64_t heads = 32;
  std::int64_t head_dim = 0;  // 0: hidden / heads
  bool tied = false;
  double eps = 1e-6;
};

/// What all have in common; activations and biases are left to each.
ModelConfig read_numbers(const JsonObject& json, const LlamaDefaults& defaults,
                         const RotaryKeys& rotary = {}) {
  ModelConfig c;
  c.family = Family::kLlama;
  c.layers = json.integer("num_hidden_layers", defaults.layers);
  c.hidden = json.integer("hidden_size", defaults.hidden);
  c.heads = json.integer("num_attention_heads", defaults.heads);
  // Where the key is there, null means ungrouped whatever the default.
  const bool grouped_by_default = defaults.kv_heads > 0 && !json.is_null("num_key_value_heads");
  c.kv_heads =
      json.integer("num_key_value_heads", grouped_by_default ? defaults.kv_heads : c.heads);
  share(json, "num_attention_heads", c.heads, "num_key_value_heads", c.kv_heads);
  if (json.is_set("head_dim")) {
    c.head_dim = json.integer("head_dim", 0);
  } else if (defaults.head_dim > 0 && !json.is_null("head_dim")) {
    c.head_dim = defaults.head_dim;
  } else {
    c.head_dim = share(json, "hidden_size", c.hidden, "num_attention_heads", c.heads);
  }
  c.ffn = json.integer("intermediate_size", defaults.ffn);
  c.vocab = json.integer("vocab_size", defaults.vocab);
  c.seq_len = json.integer("max_position_embeddings", defaults.max_positions);
  c.activation = Activation::kSwiglu;
  c.tied_embeddings = json.boolean("tie_word_embeddings", defaults.tied);
  c.linear_bias = false;
  c.qkv_bias = false;
  c.norm_eps = norm_eps(json, "rms_norm_eps", defaults.eps);
  read_rotary(json, rotary, c);
  return c;
}

void expect_silu(const JsonObject& json) {
  const std::string activation = json.text("hidden_act", "silu");
  if (activation != "silu" && activation != "swish") {
    json.fail("hidden_act", "'" + activation + "' is not modelled; expected silu");
  }
}

/// Attention alone has none of the biases that the key asks for.
void refuse_attention_bias(const JsonObject& json) {
  if (json.boolean("attention_bias", false)) {
    json.fail("attention_bias",
              "biases in only one of attention and MLP are not modelled; expected false");
  }
}

/// 0: none. Null, unlike absent, says so.
std::int64_t sliding_window(const JsonObject& json, std::int64_t otherwise) {
  if (json.is_set("sliding_window")) return json.integer("sliding_window", 0);
  return json.is_null("sliding_window") ? 0 : otherwise;
}

/// Qwen's later layers have the window, or those that layer_types names.
void read_qwen_windows(const JsonObject& json, ModelConfig& c) {
  if (!json.boolean("use_sliding_window", false)) return;
  c.attention_window = sliding_window(json, 4096);
  if (c.attention_window == 0) return;
  ModelConfig later;
  later.window_from = json.integer("max_window_layers", 28, 0);
  read_window_layers(json, later, c);
}

/// The two Gemmas' norms, embeddings and MLP.
void read_gemma_parts(const JsonObject& json, const char* activation_key, ModelConfig& c) {
  // "gelu" is what files of the first Gemma say, and transformers reads as the approximation.
  const std::string activation = json.text(activation_key, "gelu_pytorch_tanh");
  const bool legacy = activation == "gelu" && c.branch_norms == false;
  if (activation != "gelu_pytorch_tanh" && activation != "gelu_new" && !legacy)
    json.fail(activation_key, "'" + activation + "' is not modelled; expected gelu_pytorch_tanh");
  c.activation = Activation::kGeglu;
  c.offset_norms = true;
  c.scaled_embedding = true;
  refuse_attention_bias(json);
  if (json.boolean("use_bidirectional_attention", false))
    json.fail("use_bidirectional_attention", "true is not modelled; expected false");
}

}  // namespace

ModelConfig read_llama(const JsonObject& json) {
  ModelConfig c =
      read_numbers(json, {.vocab = 32000, .ffn = 11008, .kv_heads = 0, .max_positions = 2048});
  expect_silu(json);
  c.linear_bias = json.boolean("attention_bias", false);
  c.qkv_bias = c.linear_bias;
  if (json.boolean("mlp_bias", false) != c.linear_bias) {
    json.fail(c.linear_bias ? "attention_bias" : "mlp_bias",
              "biases in only one of attention and MLP are not modelled; expected attention_bias "
              "and mlp_bias to be equal");
  }
  return c;
}

ModelConfig read_mistral(const JsonObject& json) {
  ModelConfig c =
      read_numbers(json, {.vocab = 32000, .ffn = 14336, .kv_heads = 8, .max_positions = 131072});
  expect_silu(json);
  c.attention_window = sliding_window(json, 4096);
  return c;
}

ModelConfig read_qwen2(const JsonObject& json) {
  ModelConfig c =
      read_numbers(json, {.vocab = 151936, .ffn = 22016, .kv_heads = 32, .max_positions = 32768});
  expect_silu(json);
  c.qkv_bias = true;
  read_qwen_windows(json, c);
  return c;
}

ModelConfig read_qwen3(const JsonObject& json) {
  ModelConfig c = read_numbers(
      json,
      {.vocab = 151936, .ffn = 22016, .kv_heads = 32, .max_positions = 32768, .head_dim = 128});
  expect_silu(json);
  refuse_attention_bias(json);
  c.head_norm = true;
  read_qwen_windows(json, c);
  return c;
}

ModelConfig read_gemma(const JsonObject& json) {
  ModelConfig c = read_numbers(json, {.vocab = 256000,
                                      .ffn = 24576,
                                      .kv_heads = 16,
                                      .max_positions = 8192,
                                      .layers = 28,
                                      .hidden = 3072,
                                      .heads = 16,
                                      .head_dim = 256,
                                      .tied = true});
  // What the first files call hidden_act, later ones call hidden_activation.
  read_gemma_parts(json, json.is_set("hidden_activation") ? "hidden_activation" : "hidden_act", c);
  return c;
}

ModelConfig read_gemma2(const JsonObject& json) {
  ModelConfig c = read_numbers(json, {.vocab = 256000,
                                      .ffn = 9216,
                                      .kv_heads = 4,
                                      .max_positions = 8192,
                                      .layers = 26,
                                      .hidden = 2304,
                                      .heads = 8,
                                      .head_dim = 256,
                                      .tied = true});
  c.branch_norms = true;
  read_gemma_parts(json, "hidden_activation", c);
  const auto cap = [&](const char* key, double otherwise) {
    return json.is_null(key) ? 0 : json.number(key, otherwise, 0, kDecoderNumberBelow);
  };
  c.score_cap = cap("attn_logit_softcapping", 50);
  c.logit_cap = cap("final_logit_softcapping", 30);
  c.query_scalar = json.number("query_pre_attn_scalar", 256, 1e-6, kDecoderNumberBelow);
  c.attention_window = sliding_window(json, 4096);
  if (c.attention_window == 0) return c;
  ModelConfig every_other;
  every_other.window_cycle = 2;
  read_window_layers(json, every_other, c);
  return c;
}

ModelConfig read_phi3(const JsonObject& json) {
  ModelConfig c = read_numbers(json,
                               {.vocab = 32064,
                                .ffn = 8192,
                                .kv_heads = 0,
                                .max_positions = 4096,
                                .hidden = 3072,
                                .eps = 1e-5},
                               {.part = "partial_rotary_factor", .may_scale = false});
  expect_silu(json);
  c.attention_window = sliding_window(json, 0);
  return c;
}

}  // namespace trainyard
