// Published models by name: what `model: gpt3-175b` in a study means, and `trainyard list models`.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "engine/plan/model_config.h"

namespace trainyard {

struct ModelPreset {
  std::string name;
  std::string description;  // one line
  ModelConfig config;       // config.name == name
};

std::span<const ModelPreset> model_presets();  // by family, then by size

const ModelPreset* find_model_preset(std::string_view name);  // nullptr: no such preset

}  // namespace trainyard
