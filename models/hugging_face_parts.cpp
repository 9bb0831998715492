#include "models/hugging_face_parts.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/user_text.h"
#include "engine/plan/plan_limits.h"

namespace trainyard {

namespace {

double rotary_base(const JsonObject& json, const char* key, double otherwise) {
  return json.number(key, otherwise, kLeastRotaryBase, kRotaryBaseBelow);
}

/// Why angles of a kind are not modelled; nullptr: the kind is not known.
const char* what_lacks(const std::string& kind) {
  if (kind == "longrope" || kind == "su")
    return "a factor for each frequency, and others for short sequences than for long ones";
  if (kind == "yarn") return "frequencies mixed by a ramp, and scores that are scaled with them";
  if (kind == "dynamic") return "a base that changes with the length of sequences";
  return nullptr;
}

[[noreturn]] void refuse_kind(const JsonObject& rope, const char* key, const std::string& kind,
                              bool may_scale) {
  const std::string expected =
      may_scale ? "; expected default, linear or llama3" : "; expected default";
  const char* const lacks = what_lacks(kind);
  rope.fail(key, in_quotes(kind) + " is not modelled" +
                     (lacks == nullptr ? std::string() : std::string(" (") + lacks + ")") +
                     expected);
}

/// One object of rotary parameters.
void read_rotary_object(const JsonObject& rope, const RotaryKeys& keys, ModelConfig& c) {
  for (const std::string key : {"full_attention", "sliding_attention"}) {
    if (rope.is_set(key))
      rope.fail(key, "rotary embeddings that differ from layer to layer are not modelled");
  }
  const char* const key = rope.is_set("rope_type") ? "rope_type" : "type";
  const std::string kind = rope.text("rope_type", rope.text("type", "default"));
  c.rope_base = rotary_base(rope, "rope_theta", c.rope_base);
  if (kind == "default") return;
  if (!keys.may_scale || (kind != "linear" && kind != "llama3"))
    refuse_kind(rope, key, kind, keys.may_scale);
  if (!rope.is_set("factor")) rope.fail("factor", "missing");
  c.rope_factor = rope.number("factor", 1, 1, kDecoderNumberBelow);
  if (kind == "linear") return;
  for (const char* needed :
       {"low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
    if (!rope.is_set(needed)) rope.fail(needed, "missing");
  }
  c.rope_low = rope.number("low_freq_factor", 1, 0, kDecoderNumberBelow);
  c.rope_high = rope.number("high_freq_factor", 4, 0, kDecoderNumberBelow);
  c.rope_original = rope.integer("original_max_position_embeddings", 1);
}

/// Features of a head that turn, of which transformers takes the whole number below.
std::int64_t rotary_features(const JsonObject& json, const char* key, double part,
                             std::int64_t head_dim) {
  const auto features = static_cast<std::int64_t>(static_cast<double>(head_dim) * part);
  if (features < 2 || features % 2 != 0) {
    json.fail(key, "leaves " + std::to_string(features) + " of the " + std::to_string(head_dim) +
                       " features of a head to turn; expected an even number, 2 or more");
  }
  return features == head_dim ? 0 : features;
}

constexpr double kPartBelow = 1.0 + 1e-9;

}  // namespace

double norm_eps(const JsonObject& json, const char* key, double otherwise) {
  return json.number(key, otherwise, 0, kNormEpsBelow);
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

void read_rotary(const JsonObject& json, const RotaryKeys& keys, ModelConfig& config) {
  const auto scaling = json.object("rope_scaling");
  const auto parameters = json.object("rope_parameters");
  config.rope_base = rotary_base(json, keys.base, config.rope_base);
  if (scaling) read_rotary_object(*scaling, keys, config);
  if (parameters) read_rotary_object(*parameters, keys, config);
  double part = keys.usual_part;
  const JsonObject* from = &json;
  const char* key = keys.part;
  if (key != nullptr) part = json.number(key, part, 0, kPartBelow);
  for (const auto* object : {&scaling, &parameters}) {
    if (!*object || !(*object)->is_set("partial_rotary_factor")) continue;
    from = &**object;
    key = "partial_rotary_factor";
    part = from->number(key, 1, 0, kPartBelow);
  }
  if (part != 1 && keys.part == nullptr) {
    from->fail("partial_rotary_factor",
               "rotary embeddings of a part of a head are not this model type's; expected 1");
  }
  if (part != 1) config.rotary_dim = rotary_features(*from, key, part, config.head_dim);
}

void read_window_layers(const JsonObject& json, const ModelConfig& by_default,
                        ModelConfig& config) {
  config.window_from = by_default.window_from;
  config.window_cycle = by_default.window_cycle;
  std::vector<bool> windows;
  if (json.is_set("layer_types")) {
    const JsonFile::Json& types = json.json().at("layer_types");
    if (!types.is_array()) json.fail("layer_types", "expected a list, got " + shorten(types));
    if (static_cast<std::int64_t>(types.size()) != config.layers)
      json.fail("layer_types", "expected a word for each of " + std::to_string(config.layers) +
                                   " layers, got " + std::to_string(types.size()));
    for (const JsonFile::Json& type : types) {
      if (type != "full_attention" && type != "sliding_attention")
        json.fail("layer_types", shorten(type) + " is not modelled; expected full_attention or " +
                                     "sliding_attention");
      windows.push_back(type == "sliding_attention");
    }
    const auto first = std::find(windows.begin(), windows.end(), true);
    config.window_from = first - windows.begin();
    // The first layer without one, counted from the first with one, ends the cycle.
    const auto gap = std::find(first, windows.end(), false);
    config.window_cycle = gap == windows.end() ? 0 : gap - windows.begin() + 1;
  }
  if (config.window_from >= config.layers) {  // none has it
    config.attention_window = config.window_from = config.window_cycle = 0;
    return;
  }
  ModelConfig with = config;
  with.attention_window = 1;
  std::int64_t layer = 0;
  for (const bool window : windows) {
    if (has_window(with, layer++) == window) continue;
    json.fail("layer_types",
              "windows of layers without a pattern are not modelled; expected them from some layer "
              "on, or in all but the last of every so many layers");
  }
}

}  // namespace trainyard
