// Mamba-2 in a config.json.
#include <algorithm>

#include "models/hugging_face_parts.h"
#include "models/hugging_face_readers.h"

namespace trainyard {

namespace {

/// The file does not say how long sequences are: as the paper's models, in whole chunks.
constexpr std::int64_t kTokens = 2048;

/// As Python's json writes it, or transformers 5: {"__float__": "Infinity"}.
bool is_infinity(const JsonFile::Json& value) {
  if (value.is_object()) return value.value("__float__", "") == "Infinity";
  return value.is_number() && value >= kInfinityInJson;
}

/// Other than 0 and infinity they would bound dt.
void check_time_steps(const JsonObject& json) {
  const auto limit = json.json().find("time_step_limit");
  if (limit == json.json().end() || limit->is_null()) return;
  const bool none =
      limit->is_array() && limit->size() == 2 && (*limit)[0] == 0.0 && is_infinity((*limit)[1]);
  if (!none) json.fail("time_step_limit", "bounds of dt are not modelled; expected [0, Infinity]");
}

std::string said(const JsonObject& json, const char* key, std::int64_t number) {
  return (json.is_set(key) ? "got " : "missing, for which transformers takes ") +
         std::to_string(number);
}

}  // namespace

ModelConfig read_mamba2(const JsonObject& json) {
  ModelConfig c;
  c.family = Family::kMamba2;
  c.layers = json.integer("num_hidden_layers", 64);
  c.hidden = json.integer("hidden_size", 4096);
  c.head_dim = json.integer("head_dim", 64);
  c.state_size = json.integer("state_size", 128);
  c.conv_width = json.integer("conv_kernel", 4);
  c.expand = json.integer("expand", 2);
  c.chunk_size = json.integer("chunk_size", 256);
  c.vocab = json.integer("vocab_size", 32768);
  c.seq_len = c.chunk_size < kTokens ? kTokens / c.chunk_size * c.chunk_size : kTokens;
  c.tied_embeddings = json.boolean("tie_word_embeddings", false);
  c.norm_eps = norm_eps(json, "layer_norm_epsilon", 1e-5);
  c.linear_bias = false;
  c.qkv_bias = false;
  const std::int64_t heads = json.integer("num_heads", 128);
  if (heads * c.head_dim != c.expand * c.hidden)
    json.fail("num_heads", std::to_string(heads) + " heads of " + std::to_string(c.head_dim) +
                               " are not expand x hidden_size, " +
                               std::to_string(c.expand * c.hidden) + "; " +
                               said(json, "num_heads", heads));
  c.groups = json.integer("n_groups", 8);
  if (c.groups < 1 || heads % c.groups != 0)
    json.fail("n_groups", std::to_string(c.groups) + " groups do not divide " +
                              std::to_string(heads) + " heads; " +
                              said(json, "n_groups", c.groups));
  check_time_steps(json);
  return c;
}

}  // namespace trainyard
