// What readers of several model types of a config.json have in common.
#pragma once

#include <cstdint>
#include <string>

#include "engine/plan/model_config.h"
#include "models/json_object.h"

namespace trainyard {

/// What an Infinity of Python's json is read as.
inline constexpr double kInfinityInJson = 1e308;

/// Maps of CLIP's towers.
inline constexpr const char* kClipText = "text_config";
inline constexpr const char* kClipImage = "vision_config";

double norm_eps(const JsonObject& json, const char* key, double otherwise);

/// total / parts; refused where they do not divide it.
std::int64_t share(const JsonObject& json, const char* total_key, std::int64_t total,
                   const char* parts_key, std::int64_t parts);

Activation gelu_or_relu(const JsonObject& json, const char* key, const char* otherwise);

/// What an earlier version of transformers keeps beside the rotary angles' kind.
struct RotaryKeys {
  const char* base = "rope_theta";
  const char* part = nullptr;  // of a head that turns; nullptr: no key says it
  double usual_part = 1;
  bool may_scale = true;  // llama3 and linear; false: the type has neither
};

/// Sets the numbers of the rotary angles: transformers 5 keeps them in rope_parameters, earlier
/// versions at the top and in rope_scaling. Refuses angles of other kinds with what they lack.
void read_rotary(const JsonObject& json, const RotaryKeys& keys, ModelConfig& config);

/// Which layers have the window, by layer_types where the file says it: from some layer on, or all
/// but the last of so many. `by_default`: where it does not. No layer: no window.
void read_window_layers(const JsonObject& json, const ModelConfig& by_default, ModelConfig& config);

}  // namespace trainyard
