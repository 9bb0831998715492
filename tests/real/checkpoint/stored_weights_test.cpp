// What a model's parameters are stored as.
#include "real/checkpoint/stored_weights.h"

#include <catch2/catch.hpp>
#include <map>

#include "models/model.h"

namespace trainyard::stored_weights_test {

namespace {

ModelConfig config_of(Family family) {
  ModelConfig c;
  c.family = family;
  c.layers = 2;
  c.hidden = 8;
  c.heads = 4;
  c.kv_heads = family == Family::kLlama ? 2 : 4;
  c.head_dim = 2;
  c.ffn = 12;
  c.vocab = 9;
  c.pad_vocab_to = 16;
  c.seq_len = 8;
  if (family == Family::kGpt || family == Family::kBert) c.max_positions = 8;
  if (family == Family::kBert) c.token_types = 2;
  if (family == Family::kT5) {
    c.decoder_layers = 1;
    c.decoder_seq_len = 8;
    c.relative_buckets = 4;
  }
  if (family == Family::kT5 || family == Family::kLlama) c.activation = Activation::kSwiglu;
  return c;
}

}  // namespace

TEST_CASE("fused parameters are stored as their parts") {
  std::map<std::string, std::int64_t> first_rows;
  for (const StoredWeight& weight : stored_weights(build_model(config_of(Family::kT5), {}))) {
    first_rows[weight.name] = weight.first_row;
  }
  CHECK(first_rows.at("encoder.layers.1.self_attention.q.weight") == 0);
  CHECK(first_rows.at("encoder.layers.1.self_attention.v.weight") == 16);
  CHECK(first_rows.at("decoder.layers.0.cross_attention.q.weight") == 0);
  CHECK(first_rows.at("decoder.layers.0.cross_attention.k.weight") == 0);
  CHECK(first_rows.at("decoder.layers.0.cross_attention.v.weight") == 8);
  CHECK(first_rows.at("decoder.layers.0.mlp.up.weight") == 12);
  CHECK_FALSE(first_rows.contains("encoder.layers.1.self_attention.qkv.weight"));
}

}  // namespace trainyard::stored_weights_test
