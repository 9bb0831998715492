#include "models/hugging_face.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "engine/base/error.h"
#include "engine/base/quantity.h"
#include "engine/base/user_text.h"
#include "engine/plan/plan_limits.h"
#include "models/hugging_face_keys.h"
#include "models/hugging_face_parts.h"
#include "models/hugging_face_places.h"
#include "models/hugging_face_readers.h"
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
    json.fail("feed_forward_proj", "unknown activation " + in_quotes(name) +
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

struct Reader {
  const char* type;
  ModelConfig (*read)(const JsonObject& json);
};

constexpr Reader kReaders[] = {
    {"gpt2", read_gpt2},     {"bert", read_bert},   {"roberta", read_roberta},
    {"t5", read_t5},         {"llama", read_llama}, {"mistral", read_mistral},
    {"qwen2", read_qwen2},   {"qwen3", read_qwen3}, {"gemma", read_gemma},
    {"gemma2", read_gemma2}, {"phi3", read_phi3},   {"gpt_neox", read_gpt_neox},
    {"falcon", read_falcon}, {"opt", read_opt},     {"mpt", read_mpt},
    {"mamba2", read_mamba2}, {"vit", read_vit},     {"swin", read_swin},
    {"resnet", read_resnet}, {"clip", read_clip},
};

/// Types of decoders that are known to lack something here.
struct UnmodelledType {
  std::string_view type, lacks;
};

constexpr std::string_view kExperts = "experts, MLPs among which a router chooses";
constexpr UnmodelledType kUnmodelled[] = {
    {"mixtral", kExperts},
    {"qwen2_moe", kExperts},
    {"qwen3_moe", kExperts},
    {"olmoe", kExperts},
    {"phimoe", kExperts},
    {"dbrx", kExperts},
    {"gpt_oss", "experts, MLPs among which a router chooses, and sinks of attention"},
    {"llama4", kExperts},
    {"deepseek_v2", "experts, MLPs among which a router chooses, and latent attention"},
    {"deepseek_v3", "experts, MLPs among which a router chooses, and latent attention"},
    {"gemma3", "rotary angles that differ from layer to layer"},
    {"gemma3_text", "rotary angles that differ from layer to layer"},
    {"bloom", "a norm of the embeddings"},
    {"deberta", "scores of relative positions of their own"},
    {"deberta-v2", "scores of relative positions of their own"},
    {"whisper", "an encoder of sound"},
    {"granite", "factors of embeddings, residuals and scores"},
    {"gptj", "rotary angles of neighbouring features"},
    {"gpt_neo", "windows of every other layer with scores that are not scaled"},
    {"phi", "biases of a head of its own"},
    {"cohere", "rotary angles of neighbouring features"},
    {"mamba", "state spaces whose decays differ within a head"},
    {"falcon_mamba", "state spaces whose decays differ within a head"},
    {"jamba", "state spaces, and experts"},
    {"rwkv", "recurrent layers"},
};

[[noreturn]] void refuse_type(const JsonObject& json, const std::string& type) {
  std::vector<std::string> known;
  for (const Reader& reader : kReaders) known.emplace_back(reader.type);
  std::string problem = type.empty() ? "missing" : "unknown model type " + in_quotes(type);
  std::string otherwise = type.empty() ? "" : "; an ONNX file of it may be read (docs/onnx.md)";
  for (const UnmodelledType& one : kUnmodelled) {
    if (one.type != type) continue;
    problem = in_quotes(type) + " is not modelled: it has " + std::string(one.lacks);
    if (one.lacks.find("experts") != std::string_view::npos) otherwise.clear();
  }
  const std::string last = known.back();
  known.pop_back();
  std::string list;
  for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
  json.fail("model_type", problem + "; expected " + list + " or " + last + otherwise);
}

HuggingFaceModel read_model(const JsonObject& json) {
  const std::string type = json.text("model_type", "");
  const auto* const reader = std::find_if(std::begin(kReaders), std::end(kReaders),
                                          [&](const Reader& one) { return type == one.type; });
  if (reader == std::end(kReaders)) refuse_type(json, type);
  HuggingFaceModel model;
  model.config = reader->read(json);
  check_keys(json, type, model);
  if (type == "clip") {
    check_keys(*json.object(kClipText), "clip_text_model", model);
    check_keys(*json.object(kClipImage), "clip_vision_model", model);
  }
  const double left_out = type == "swin" ? json.number("drop_path_rate", 0.1, 0, 1) : 0;
  if (left_out > 0)
    model.warnings.push_back(to_string(json.where("drop_path_rate")) +
                             ": drop_path_rate: no block is left out while swin trains here, as " +
                             "transformers does at a rate of up to " + number_text(left_out));
  return model;
}

/// Python writes Infinity, which JSON has not: a number as long, outside of texts.
std::string without_infinity(std::string text) {
  constexpr std::string_view kWord = "Infinity", kNumber = "1e308   ";
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quoted && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && text.compare(i, kWord.size(), kWord) == 0) {
      text.replace(i, kWord.size(), kNumber);
    }
  }
  return text;
}

/// `key` is the study's.
[[noreturn]] void fail_at_key(const JsonObject& json, const std::string& key,
                              const std::string& problem) {
  const std::string theirs = key_in_file(json, json.text("model_type", ""), key);
  json.fail(theirs.empty() ? key : theirs, problem);
}

std::string text_of(const std::string& path) {
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
  return text;
}

}  // namespace

HuggingFaceModel parse_hugging_face_config(const std::string& text, const std::string& file_name) {
  const JsonObject json(without_infinity(text), file_name);
  HuggingFaceModel model = read_model(json);
  model.config.name = file_name;
  if (const std::optional<ModelProblem> problem = find_problem(model.config))
    fail_at_key(json, problem->key, problem->problem);
  return model;
}

HuggingFaceModel read_hugging_face_config(const std::string& path) {
  return parse_hugging_face_config(text_of(path), path);
}

void fail_in_hugging_face_config(const std::string& path, const std::string& key,
                                 const std::string& problem) {
  fail_at_key(JsonObject(without_infinity(text_of(path)), path), key, problem);
}

}  // namespace trainyard
