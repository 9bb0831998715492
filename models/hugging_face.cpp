#include "models/hugging_face.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "engine/base/error.h"
#include "engine/base/user_text.h"
#include "engine/plan/plan_limits.h"
#include "models/hugging_face_keys.h"
#include "models/json_object.h"
#include "models/model.h"

namespace trainyard {

namespace {

constexpr std::size_t kMaxFileBytes = 1 << 20;  // real ones are a few KB

const HuggingFaceKey* find_key(std::string_view type, std::string_view key) {
  const auto keys = hugging_face_keys();
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const HuggingFaceKey& row) {
    return row.model_type == type && row.key == key;
  });
  return found == keys.end() ? nullptr : &*found;
}

/// The value of a key, or where it is absent or null its default.
JsonFile::Json value_of(const JsonObject& json, const HuggingFaceKey& row) {
  const auto value = json.json().find(row.key);
  return value == json.json().end() || value->is_null() ? JsonFile::Json::parse(row.otherwise)
                                                        : *value;
}

/// Refuses what would make another model, and names in one warning all keys that no such model has.
void check_keys(const JsonObject& json, const std::string& type, HuggingFaceModel& model) {
  std::vector<std::string> unknown;
  std::string first;
  for (const auto& [key, value] : json.json().items()) {
    const HuggingFaceKey* row = find_key(type, key);
    if (row == nullptr) {
      if (unknown.empty()) first = key;
      unknown.push_back(printable(key, 60));
    } else if (value.is_null()) {
      continue;
    } else if (row->use == KeyUse::kRefused && value != JsonFile::Json::parse(row->otherwise)) {
      json.fail(key, shorten(value) + " is not modelled; expected " + std::string(row->otherwise));
    } else if (row->use == KeyUse::kOtherName) {
      const JsonFile::Json meant = value_of(json, *find_key(type, row->otherwise));
      if (value != meant) {
        json.fail(key, "another name of " + std::string(row->otherwise) + ", which is " +
                           shorten(meant) + ", got " + shorten(value));
      }
    }
  }
  if (unknown.empty()) return;
  model.warnings.push_back(to_string(json.where(first)) + ": left out, since " + type +
                           " has no such keys in " + "transformers " + kTransformersVersion + ": " +
                           join_words(unknown));
}

double norm_eps(const JsonObject& json, const char* key, double otherwise) {
  return json.number(key, otherwise, 0, kNormEpsBelow);
}

double rope_theta(const JsonObject& json, double otherwise) {
  return json.number("rope_theta", otherwise, kLeastRotaryBase, kRotaryBaseBelow);
}

std::int64_t share(const JsonObject& json, const char* total_key, std::int64_t total,
                   const char* parts_key, std::int64_t parts) {
  if (total % parts != 0) {
    json.fail(parts_key, std::to_string(parts) + " does not divide " + total_key + ", " +
                             std::to_string(total));
  }
  return total / parts;
}

Activation gelu_or_relu(const JsonObject& json, const char* key, const char* otherwise) {
  const std::string name = json.text(key, otherwise);
  if (name == "gelu") return Activation::kGelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") {
    return Activation::kGeluTanh;
  }
  if (name == "relu") return Activation::kRelu;
  json.fail(key, "unknown activation '" + name +
                     "'; expected gelu, gelu_new, gelu_pytorch_tanh, gelu_fast or relu");
}

ModelConfig read_gpt2(const JsonObject& json) {
  ModelConfig c;
  c.family = Family::kGpt;
  c.layers = json.integer("n_layer", 12);
  c.hidden = json.integer("n_embd", 768);
  c.heads = json.integer("n_head", 12);
  c.kv_heads = c.heads;
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

ModelConfig read_bert(const JsonObject& json) {
  const std::string positions = json.text("position_embedding_type", "absolute");
  if (positions != "absolute") {
    json.fail("position_embedding_type", "'" + positions + "' is not modelled; expected absolute");
  }
  ModelConfig c;
  c.family = Family::kBert;
  c.layers = json.integer("num_hidden_layers", 12);
  c.hidden = json.integer("hidden_size", 768);
  c.heads = json.integer("num_attention_heads", 12);
  c.kv_heads = c.heads;
  c.head_dim = share(json, "hidden_size", c.hidden, "num_attention_heads", c.heads);
  c.ffn = json.integer("intermediate_size", 3072);
  c.vocab = json.integer("vocab_size", 30522);
  c.max_positions = json.integer("max_position_embeddings", 512);
  c.seq_len = c.max_positions;
  c.token_types = json.integer("type_vocab_size", 2);
  c.activation = gelu_or_relu(json, "hidden_act", "gelu");
  c.tied_embeddings = json.boolean("tie_word_embeddings", true);
  c.norm_eps = norm_eps(json, "layer_norm_eps", 1e-12);
  return c;
}

ModelConfig read_roberta(const JsonObject& json) {
  ModelConfig c = read_bert(json);
  c.vocab = json.integer("vocab_size", 50265);
  // The padding token's position and those before it are never used by a token.
  const std::int64_t reserved = json.integer("pad_token_id", 1) + 1;
  if (c.max_positions <= reserved) {
    json.fail("max_position_embeddings", "expected more than the " + std::to_string(reserved) +
                                             " up to the padding token, got " +
                                             std::to_string(c.max_positions));
  }
  c.seq_len = c.max_positions - reserved;
  return c;
}

struct T5Activation {
  const char* name;  // feed_forward_proj
  Activation activation;
  const char* function;  // dense_act_fn, which transformers makes of it and a file may say again
  bool gated;            // is_gated_act, the same
};

constexpr T5Activation kT5Activations[] = {{"relu", Activation::kRelu, "relu", false},
                                           {"gelu", Activation::kGelu, "gelu", false},
                                           {"gated-gelu", Activation::kGeglu, "gelu_new", true},
                                           {"gated-silu", Activation::kSwiglu, "silu", true}};

Activation t5_activation(const JsonObject& json) {
  const std::string name = json.text("feed_forward_proj", "relu");
  const auto* const known = std::find_if(std::begin(kT5Activations), std::end(kT5Activations),
                                         [&](const T5Activation& one) { return one.name == name; });
  if (known == std::end(kT5Activations)) {
    json.fail("feed_forward_proj", "unknown activation " + trainyard::quoted(name) +
                                       "; expected relu, gelu, gated-gelu or gated-silu");
  }
  if (json.text("dense_act_fn", known->function) != known->function) {
    json.fail("dense_act_fn",
              std::string("expected ") + known->function + ", that of feed_forward_proj " + name);
  }
  if (json.boolean("is_gated_act", known->gated) != known->gated) {
    json.fail("is_gated_act", "contradicts feed_forward_proj, " + name);
  }
  return known->activation;
}

/// transformers 5 ties every T5 in its config and says apart whether the head is scaled as that of
/// a tied model. What is not scaled (T5 1.1) has a head of its own in the published files.
bool t5_is_tied(const JsonObject& json) {
  const bool tied = json.boolean("tie_word_embeddings", true);
  const bool scaled = json.boolean("scale_decoder_outputs", tied);
  if (scaled && !tied) {
    json.fail("scale_decoder_outputs",
              "a head of its own that is scaled is not modelled; expected false where "
              "tie_word_embeddings is false");
  }
  return scaled;
}

ModelConfig read_t5(const JsonObject& json) {
  ModelConfig c;
  c.family = Family::kT5;
  c.layers = json.integer("num_layers", 6);
  c.decoder_layers = json.integer("num_decoder_layers", c.layers);
  c.hidden = json.integer("d_model", 512);
  c.heads = json.integer("num_heads", 8);
  c.kv_heads = c.heads;
  c.head_dim = json.integer("d_kv", 64);
  c.ffn = json.integer("d_ff", 2048);
  c.vocab = json.integer("vocab_size", 32128);
  c.seq_len = json.integer("n_positions", 512);
  c.decoder_seq_len = c.seq_len;
  c.relative_buckets = json.integer("relative_attention_num_buckets", 32);
  c.activation = t5_activation(json);
  c.tied_embeddings = t5_is_tied(json);
  c.linear_bias = false;
  c.qkv_bias = false;
  c.norm_eps = norm_eps(json, "layer_norm_epsilon", 1e-6);
  return c;
}

/// Refuses angles that are anything but position * base^(-2i/H).
void expect_plain_rope(const JsonObject& rope) {
  for (const std::string key : {"full_attention", "sliding_attention"}) {
    if (rope.is_set(key))
      rope.fail(key, "rotary embeddings that differ from layer to layer are not modelled");
  }
  const std::string type = rope.text("rope_type", rope.text("type", "default"));
  if (type != "default") {
    rope.fail(rope.is_set("rope_type") ? "rope_type" : "type",
              "'" + type + "' is not modelled; expected default");
  }
  if (rope.number("partial_rotary_factor", 1, 0, 2) != 1) {
    rope.fail("partial_rotary_factor",
              "rotary embeddings of a part of a head are not modelled; expected 1");
  }
}

/// The base of the rotary angles: transformers 5 keeps it in rope_parameters, earlier versions at
/// the top.
double rope_base(const JsonObject& json) {
  if (const auto scaling = json.object("rope_scaling")) expect_plain_rope(*scaling);
  const double base = rope_theta(json, 10000);
  const auto rope = json.object("rope_parameters");
  if (!rope) return base;
  expect_plain_rope(*rope);
  return rope_theta(*rope, base);
}

struct LlamaDefaults {
  std::int64_t vocab;
  std::int64_t ffn;
  std::int64_t kv_heads;  // 0: as many as heads
  std::int64_t max_positions;
};

/// What Llama, Mistral and Qwen2 have in common; biases are left to each.
ModelConfig read_llama_like(const JsonObject& json, const LlamaDefaults& defaults) {
  ModelConfig c;
  c.family = Family::kLlama;
  c.layers = json.integer("num_hidden_layers", 32);
  c.hidden = json.integer("hidden_size", 4096);
  c.heads = json.integer("num_attention_heads", 32);
  // Where the key is there, null means ungrouped whatever the default.
  const bool grouped_by_default = defaults.kv_heads > 0 && !json.is_null("num_key_value_heads");
  c.kv_heads =
      json.integer("num_key_value_heads", grouped_by_default ? defaults.kv_heads : c.heads);
  share(json, "num_attention_heads", c.heads, "num_key_value_heads", c.kv_heads);
  c.head_dim = json.is_set("head_dim")
                   ? json.integer("head_dim", 0)
                   : share(json, "hidden_size", c.hidden, "num_attention_heads", c.heads);
  c.ffn = json.integer("intermediate_size", defaults.ffn);
  c.vocab = json.integer("vocab_size", defaults.vocab);
  c.seq_len = json.integer("max_position_embeddings", defaults.max_positions);
  const std::string activation = json.text("hidden_act", "silu");
  if (activation != "silu" && activation != "swish") {
    json.fail("hidden_act", "'" + activation + "' is not modelled; expected silu");
  }
  c.activation = Activation::kSwiglu;
  c.tied_embeddings = json.boolean("tie_word_embeddings", false);
  c.linear_bias = false;
  c.qkv_bias = false;
  c.norm_eps = norm_eps(json, "rms_norm_eps", 1e-6);
  c.rope_base = rope_base(json);
  return c;
}

ModelConfig read_llama(const JsonObject& json) {
  ModelConfig c =
      read_llama_like(json, {.vocab = 32000, .ffn = 11008, .kv_heads = 0, .max_positions = 2048});
  c.linear_bias = json.boolean("attention_bias", false);
  c.qkv_bias = c.linear_bias;
  if (json.boolean("mlp_bias", false) != c.linear_bias) {
    json.fail(c.linear_bias ? "attention_bias" : "mlp_bias",
              "biases in only one of attention and MLP are not modelled; expected attention_bias "
              "and mlp_bias to be equal");
  }
  return c;
}

/// Qwen2's later layers have the window, or those that layer_types names.
bool has_windows(const JsonObject& json, std::int64_t layers) {
  if (!json.boolean("use_sliding_window", false)) return false;
  if (!json.is_set("layer_types")) return json.integer("max_window_layers", 28, 0) < layers;
  const JsonFile::Json& types = json.json().at("layer_types");
  if (!types.is_array()) json.fail("layer_types", "expected a list, got " + shorten(types));
  return std::any_of(types.begin(), types.end(),
                     [](const JsonFile::Json& type) { return type != "full_attention"; });
}

/// 0: none. Null, unlike absent, says so.
std::int64_t sliding_window(const JsonObject& json) {
  return json.is_null("sliding_window") ? 0 : json.integer("sliding_window", 4096);
}

HuggingFaceModel read_model(const JsonObject& json) {
  const std::string type = json.text("model_type", "");
  HuggingFaceModel model;
  if (type == "gpt2") {
    model.config = read_gpt2(json);
  } else if (type == "bert") {
    model.config = read_bert(json);
  } else if (type == "roberta") {
    model.config = read_roberta(json);
  } else if (type == "t5") {
    model.config = read_t5(json);
  } else if (type == "llama") {
    model.config = read_llama(json);
  } else if (type == "mistral") {
    model.config = read_llama_like(
        json, {.vocab = 32000, .ffn = 14336, .kv_heads = 8, .max_positions = 131072});
    model.config.attention_window = sliding_window(json);
  } else if (type == "qwen2") {
    model.config = read_llama_like(
        json, {.vocab = 151936, .ffn = 22016, .kv_heads = 32, .max_positions = 32768});
    model.config.qkv_bias = true;
    if (has_windows(json, model.config.layers))
      model.config.attention_window = sliding_window(json);
  } else {
    json.fail("model_type",
              (type.empty() ? "missing" : "unknown model type " + trainyard::quoted(type)) +
                  std::string("; expected gpt2, bert, roberta, t5, llama, mistral "
                              "or qwen2"));
  }
  check_keys(json, type, model);
  return model;
}

}  // namespace

HuggingFaceModel parse_hugging_face_config(const std::string& text, const std::string& file_name) {
  const JsonObject json(text, file_name);
  HuggingFaceModel model = read_model(json);
  model.config.name = file_name;
  ModelConfig without_window = model.config;
  without_window.attention_window = 0;  // a study may say a shorter seq_len
  if (const std::optional<ModelProblem> problem = find_problem(without_window)) {
    json.fail(problem->key, problem->problem);
  }
  return model;
}

HuggingFaceModel read_hugging_face_config(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || !file.is_open() || (file.fail() && !file.eof())) {
    throw ConfigError(SourcePos{path}, "", "cannot be read");
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMaxFileBytes) {
    throw ConfigError(SourcePos{path}, "", "larger than 1 MiB; expected a config.json");
  }
  return parse_hugging_face_config(text, path);
}

}  // namespace trainyard
