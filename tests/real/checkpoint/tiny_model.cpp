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
  if (family == Family::kT5 || family == Family::kLlama) {
    c.activation = Activation::kSwiglu;
    c.linear_bias = false;
    c.qkv_bias = false;
  }
  return c;
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
                         c.qkv_bias};
  return json.dump();
}

}  // namespace trainyard
