#include "models/hugging_face_places.h"

#include <algorithm>

#include "models/hugging_face_keys.h"

namespace trainyard {

namespace {

struct Names {
  std::string_view ours;
  std::string_view theirs[5];
};

/// Those of all types: each has at most one of them, or others that say the same.
constexpr Names kNames[] = {
    {"layers", {"num_hidden_layers", "n_layer", "n_layers", "num_layers", "depths"}},
    {"decoder_layers", {"num_decoder_layers"}},
    {"hidden", {"hidden_size", "n_embd", "d_model", "embed_dim", "n_embed"}},
    {"heads", {"num_attention_heads", "n_head", "n_heads", "num_heads"}},
    {"kv_heads", {"num_key_value_heads", "num_kv_heads"}},
    {"head_dim", {"head_dim", "d_kv"}},
    {"ffn", {"intermediate_size", "n_inner", "ffn_dim", "d_ff", "ffn_hidden_size"}},
    {"activation", {"hidden_act", "hidden_activation", "activation_function", "feed_forward_proj"}},
    {"vocab", {"vocab_size"}},
    {"seq_len", {"max_position_embeddings", "n_positions", "max_seq_len"}},
    {"max_positions", {"max_position_embeddings", "n_positions", "max_seq_len"}},
    {"attention_window", {"sliding_window"}},
    {"rotary_dim", {"rotary_pct", "partial_rotary_factor"}},
    {"relative_buckets", {"relative_attention_num_buckets"}},
    {"token_types", {"type_vocab_size"}},
    {"image_size", {"image_size"}},
    {"patch_size", {"patch_size"}},
    {"window_size", {"window_size"}},
    {"channels", {"num_channels"}},
    {"classes", {"num_labels", "id2label"}},
    {"depth", {"depths"}},
    {"width_factor", {"embedding_size"}},
    {"projection_dim", {"projection_dim"}},
    {"groups", {"n_groups"}},
    {"state_size", {"state_size"}},
    {"conv_width", {"conv_kernel"}},
    {"expand", {"expand"}},
    {"chunk_size", {"chunk_size"}},
};

bool has_key(std::string_view type, std::string_view key) {
  const auto keys = hugging_face_keys();
  return std::any_of(keys.begin(), keys.end(), [&](const HuggingFaceKey& row) {
    return row.model_type == type && row.key == key;
  });
}

}  // namespace

std::string key_in_file(const JsonObject& json, std::string_view type, std::string_view key) {
  const auto row = std::find_if(std::begin(kNames), std::end(kNames),
                                [&](const Names& names) { return names.ours == key; });
  if (row == std::end(kNames)) return {};
  std::string known;
  for (const std::string_view theirs : row->theirs) {
    if (theirs.empty()) continue;
    if (json.is_set(std::string(theirs))) return std::string(theirs);
    if (known.empty() && has_key(type, theirs)) known = theirs;
  }
  return known;
}

}  // namespace trainyard
