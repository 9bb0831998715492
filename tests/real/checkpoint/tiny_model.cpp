#include "tests/real/checkpoint/tiny_model.h"

#include <nlohmann/json.hpp>

namespace trainyard {

ModelConfig tiny(Family family) {
  ModelConfig c;
  c.family = family;
  c.layers = 2;
  c.hidden = 6;
  c.heads = 2;
  c.kv_heads = 2;
  c.head_dim = 3;
  c.ffn = 10;
  c.vocab = 11;
  c.seq_len = 8;
  if (family == Family::kGpt || family == Family::kBert) c.max_positions = 8;
  if (family == Family::kBert) c.token_types = 2;
  if (family == Family::kLlama) {
    c.kv_heads = 1;
    c.head_dim = 4;
    c.tied_embeddings = false;
  }
  if (family == Family::kT5) {
    c.decoder_layers = 1;
    c.decoder_seq_len = 8;
    c.relative_buckets = 4;
  }
  if (family == Family::kVit) {
    c.vocab = 0;
    c.image_size = 8, c.patch_size = 4, c.channels = 3, c.classes = 5;
    c.tied_embeddings = false;
    set_image_numbers(c);
  }
  if (family == Family::kSwin) {
    c.layers = 8;  // 2, 2, 2, 2
    c.hidden = 12, c.heads = 2, c.ffn = 0;
    c.vocab = 0;
    c.kv_heads = c.head_dim = 0;
    c.image_size = 32, c.patch_size = 2, c.window_size = 2, c.channels = 3, c.classes = 5;
    c.tied_embeddings = false;
    set_image_numbers(c);
  }
  if (family == Family::kT5 || family == Family::kLlama) {
    c.activation = Activation::kSwiglu;
    c.linear_bias = false;
    c.qkv_bias = false;
  }
  return c;
}

namespace {

/// With 4 heads of 4 features, of which key-value heads may be fewer.
ModelConfig tiny_llama(std::int64_t kv_heads) {
  ModelConfig c = tiny(Family::kLlama);
  c.hidden = 16;
  c.heads = 4;
  c.kv_heads = kv_heads;
  return c;
}

ModelConfig tiny_gpt(Positions positions, Residual residual, std::int64_t kv_heads) {
  ModelConfig c = tiny(Family::kGpt);
  c.hidden = 16;
  c.heads = 4;
  c.kv_heads = kv_heads;
  c.head_dim = 4;
  c.positions = positions;
  c.residual = residual;
  if (positions != Positions::kLearned) c.max_positions = 0;
  return c;
}

ModelConfig without_biases(ModelConfig c) {
  c.linear_bias = c.qkv_bias = false;
  return c;
}

}  // namespace

std::vector<ModelConfig> tiny_decoders() {
  std::vector<ModelConfig> all;
  const auto add = [&](const char* name, ModelConfig c, auto change) {
    change(c);
    c.name = name;
    all.push_back(c);
  };
  add("llama3.1", tiny_llama(2), [](ModelConfig& c) {
    c.rope_factor = 8, c.rope_low = 1, c.rope_high = 3, c.rope_original = 64;
  });
  add("llama linear", tiny_llama(4), [](ModelConfig& c) { c.rope_factor = 2; });
  add("mistral", tiny_llama(2), [](ModelConfig& c) { c.attention_window = 3; });
  add("qwen2", tiny_llama(2),
      [](ModelConfig& c) { c.qkv_bias = true, c.attention_window = 3, c.window_from = 1; });
  add("qwen3", tiny_llama(2), [](ModelConfig& c) { c.head_norm = true; });
  const auto gemma = [](ModelConfig& c) {
    c.activation = Activation::kGeglu;
    c.offset_norms = c.scaled_embedding = c.tied_embeddings = true;
  };
  add("gemma", tiny_llama(1), gemma);
  add("gemma2", tiny_llama(2), [&](ModelConfig& c) {
    gemma(c);
    c.branch_norms = true;
    c.score_cap = 5, c.logit_cap = 3, c.query_scalar = 9;
    c.attention_window = 3, c.window_cycle = 2;
  });
  add("phi3", tiny_llama(2), [](ModelConfig& c) { c.rotary_dim = 2, c.attention_window = 5; });
  add("gpt_neox", tiny_gpt(Positions::kRotary, Residual::kParallel, 4),
      [](ModelConfig& c) { c.rotary_dim = 2, c.tied_embeddings = false; });
  add("gpt_neox in order", tiny_gpt(Positions::kRotary, Residual::kSequential, 4),
      [](ModelConfig&) {});
  const auto same = [](ModelConfig&) {};
  add("falcon 7b", without_biases(tiny_gpt(Positions::kRotary, Residual::kParallelOneNorm, 1)),
      same);
  add("falcon 40b", without_biases(tiny_gpt(Positions::kRotary, Residual::kParallel, 2)), same);
  add("falcon 11b", without_biases(tiny_gpt(Positions::kRotary, Residual::kParallelOneNorm, 2)),
      same);
  add("falcon rw", tiny_gpt(Positions::kScaledAlibi, Residual::kSequential, 4), same);
  add("opt", tiny_gpt(Positions::kLearned, Residual::kSequential, 4), [](ModelConfig& c) {
    c.position_offset = 2, c.max_positions = 10, c.activation = Activation::kRelu;
  });
  add("mpt", without_biases(tiny_gpt(Positions::kAlibi, Residual::kSequential, 4)),
      [](ModelConfig& c) { c.norm_bias = false, c.ffn = 64; });
  return all;
}

std::string essence(const ModelConfig& c) {
  nlohmann::json json = {to_string(c.family),
                         c.layers,
                         c.decoder_layers,
                         c.hidden,
                         c.heads,
                         c.kv_heads,
                         c.head_dim,
                         c.ffn,
                         c.vocab,
                         c.seq_len,
                         c.decoder_seq_len,
                         c.max_positions,
                         c.token_types,
                         c.norm_eps,
                         c.rope_base,
                         c.relative_buckets,
                         to_string(c.activation),
                         c.tied_embeddings,
                         c.linear_bias,
                         c.qkv_bias,
                         c.scaled_attention,
                         c.layer_scaled_attention,
                         c.attention_window,
                         c.window_from,
                         c.window_cycle,
                         c.query_scalar,
                         c.score_cap,
                         c.logit_cap,
                         static_cast<int>(c.positions),
                         c.position_offset,
                         c.rotary_dim,
                         c.rope_factor,
                         c.rope_low,
                         c.rope_high,
                         c.rope_original,
                         static_cast<int>(c.residual),
                         c.norm_bias,
                         c.head_norm,
                         c.offset_norms,
                         c.branch_norms,
                         c.scaled_embedding,
                         c.image_size,
                         c.patch_size,
                         c.channels,
                         c.classes,
                         c.window_size};
  return json.dump();
}

}  // namespace trainyard
