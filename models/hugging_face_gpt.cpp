// GPT-2 and its relatives in a config.json.
#include "models/hugging_face_parts.h"
#include "models/hugging_face_readers.h"

namespace trainyard {

namespace {

/// A switch of which only one value is modelled.
void expect(const JsonObject& json, const char* key, bool value, const char* otherwise) {
  if (json.boolean(key, value) == value) return;
  json.fail(key, std::string(value ? "false" : "true") + " is not modelled (" + otherwise +
                     "); expected " + (value ? "true" : "false"));
}

ModelConfig numbers_of(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  ModelConfig c;
  c.family = Family::kGpt;
  c.layers = layers;
  c.hidden = hidden;
  c.heads = c.kv_heads = heads;
  return c;
}

/// Falcon's key and value heads: of the new architecture its own number, else one or all.
std::int64_t falcon_kv_heads(const JsonObject& json, const ModelConfig& c, bool is_new) {
  if (!is_new) return json.boolean("multi_query", true) ? 1 : c.heads;
  const std::int64_t heads = json.integer("num_kv_heads", c.heads);
  share(json, "num_attention_heads", c.heads, "num_kv_heads", heads);
  return heads;
}

Residual falcon_residual(const JsonObject& json, bool is_new) {
  const char* const key = "num_ln_in_parallel_attn";
  const bool parallel = json.boolean("parallel_attn", true);
  const std::int64_t norms = json.integer(key, is_new ? 2 : 1);
  if (is_new && !parallel)
    json.fail("parallel_attn", "false is not modelled with new_decoder_architecture");
  if (norms > 2 || (norms == 2 && !is_new))
    json.fail(key, std::to_string(norms) + " norms are not modelled; expected " +
                       (is_new ? "1 or 2" : "1, or new_decoder_architecture"));
  if (!parallel) return Residual::kSequential;
  return norms == 2 ? Residual::kParallel : Residual::kParallelOneNorm;
}

}  // namespace

ModelConfig read_gpt2(const JsonObject& json) {
  ModelConfig c = numbers_of(json.integer("n_layer", 12), json.integer("n_embd", 768),
                             json.integer("n_head", 12));
  c.head_dim = share(json, "n_embd", c.hidden, "n_head", c.heads);
  c.ffn = json.integer("n_inner", 4 * c.hidden);
  c.vocab = json.integer("vocab_size", 50257);
  c.max_positions = json.integer("n_positions", 1024);
  c.seq_len = c.max_positions;
  c.activation = gelu_or_relu(json, "activation_function", "gelu_new");
  c.tied_embeddings = json.boolean("tie_word_embeddings", true);
  c.norm_eps = norm_eps(json, "layer_norm_epsilon", 1e-5);
  c.scaled_attention = json.boolean("scale_attn_weights", true);
  c.layer_scaled_attention = json.boolean("scale_attn_by_inverse_layer_idx", false);
  return c;
}

ModelConfig read_gpt_neox(const JsonObject& json) {
  ModelConfig c =
      numbers_of(json.integer("num_hidden_layers", 44), json.integer("hidden_size", 6144),
                 json.integer("num_attention_heads", 64));
  c.head_dim = share(json, "hidden_size", c.hidden, "num_attention_heads", c.heads);
  c.ffn = json.integer("intermediate_size", 24576);
  c.vocab = json.integer("vocab_size", 50432);
  c.seq_len = json.integer("max_position_embeddings", 2048);
  c.activation = gelu_or_relu(json, "hidden_act", "gelu");
  c.tied_embeddings = json.boolean("tie_word_embeddings", false);
  c.norm_eps = norm_eps(json, "layer_norm_eps", 1e-5);
  c.positions = Positions::kRotary;
  c.residual =
      json.boolean("use_parallel_residual", true) ? Residual::kParallel : Residual::kSequential;
  expect(json, "attention_bias", true, "the MLP has biases, and attention none");
  read_rotary(json, {.base = "rotary_emb_base", .part = "rotary_pct", .usual_part = 0.25}, c);
  return c;
}

ModelConfig read_falcon(const JsonObject& json) {
  ModelConfig c = numbers_of(json.integer("num_hidden_layers", 32),
                             json.integer("n_embed", json.integer("hidden_size", 4544)),
                             json.integer("num_attention_heads", 71));
  c.head_dim = share(json, "hidden_size", c.hidden, "num_attention_heads", c.heads);
  const bool is_new = json.boolean("new_decoder_architecture", false);
  c.kv_heads = falcon_kv_heads(json, c, is_new);
  c.residual = falcon_residual(json, is_new);
  c.ffn = json.integer("ffn_hidden_size", 4 * c.hidden);
  c.vocab = json.integer("vocab_size", 65024);
  c.seq_len = json.integer("max_position_embeddings", 2048);
  c.activation = gelu_or_relu(json, "activation", "gelu");
  c.tied_embeddings = json.boolean("tie_word_embeddings", true);
  c.linear_bias = c.qkv_bias = json.boolean("bias", false);
  c.norm_eps = norm_eps(json, "layer_norm_epsilon", 1e-5);
  const bool alibi = json.boolean("alibi", false);
  c.positions = alibi ? Positions::kScaledAlibi : Positions::kRotary;
  if (!alibi) read_rotary(json, {}, c);
  return c;
}

ModelConfig read_opt(const JsonObject& json) {
  ModelConfig c =
      numbers_of(json.integer("num_hidden_layers", 12), json.integer("hidden_size", 768),
                 json.integer("num_attention_heads", 12));
  c.head_dim = share(json, "hidden_size", c.hidden, "num_attention_heads", c.heads);
  c.ffn = json.integer("ffn_dim", 3072);
  c.vocab = json.integer("vocab_size", 50272);
  c.seq_len = json.integer("max_position_embeddings", 2048);
  c.position_offset = 2;  // OPTLearnedPositionalEmbedding: the first rows are never used
  c.max_positions = c.seq_len + c.position_offset;
  c.activation = gelu_or_relu(json, "activation_function", "relu");
  c.tied_embeddings = json.boolean("tie_word_embeddings", true);
  expect(json, "do_layer_norm_before", true, "norms behind the residual sums");
  expect(json, "_remove_final_layer_norm", false, "no norm before the head");
  expect(json, "layer_norm_elementwise_affine", true, "norms without weights");
  c.linear_bias = c.qkv_bias = json.boolean("enable_bias", true);
  const std::int64_t width = json.integer("word_embed_proj_dim", c.hidden);
  if (width != c.hidden)
    json.fail("word_embed_proj_dim",
              "embeddings narrower than hidden_size, which are projected, are not modelled; "
              "expected " +
                  std::to_string(c.hidden) + ", got " + std::to_string(width));
  return c;
}

ModelConfig read_mpt(const JsonObject& json) {
  ModelConfig c = numbers_of(json.integer("n_layers", 24), json.integer("d_model", 2048),
                             json.integer("n_heads", 16));
  c.head_dim = share(json, "d_model", c.hidden, "n_heads", c.heads);
  const std::int64_t ratio = json.integer("expansion_ratio", 4);
  if (ratio != 4)
    json.fail("expansion_ratio",
              "transformers makes an MLP of 4 d_model whatever is said here; "
              "expected 4, got " +
                  std::to_string(ratio));
  c.ffn = 4 * c.hidden;
  c.vocab = json.integer("vocab_size", 50368);
  c.seq_len = json.integer("max_seq_len", 2048);
  c.activation = Activation::kGelu;
  c.tied_embeddings = json.boolean("tie_word_embeddings", true);
  c.norm_eps = norm_eps(json, "layer_norm_epsilon", 1e-5);
  c.linear_bias = c.qkv_bias = c.norm_bias = false;
  expect(json, "no_bias", true, "transformers has no biases whatever is said here");
  c.positions = Positions::kAlibi;
  if (const auto attention = json.object("attn_config")) {
    expect(*attention, "alibi", true, "transformers takes ALiBi whatever is said here");
    expect(*attention, "prefix_lm", false, "tokens that attend to later ones");
    expect(*attention, "qk_ln", false, "norms of queries and keys");
    if (attention->text("attn_type", "multihead_attention") != "multihead_attention")
      attention->fail("attn_type", "expected multihead_attention");
    for (const char* key : {"clip_qkv", "softmax_scale"}) {
      if (attention->is_set(key)) attention->fail(key, "is not modelled; expected null");
    }
    if (attention->integer("alibi_bias_max", 8) != 8)
      attention->fail("alibi_bias_max",
                      "slopes from another than 2^-8 are not modelled; expected 8");
  }
  return c;
}

}  // namespace trainyard
