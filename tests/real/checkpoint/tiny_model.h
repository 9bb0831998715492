// A small model of each family, and what Hugging Face's config.json can say of one.
#pragma once

#include <string>
#include <vector>

#include "engine/plan/model_config.h"

namespace trainyard {

ModelConfig tiny(Family family);

/// One of each decoder that transformers has a class of its own for, or keys of its own; by name.
std::vector<ModelConfig> tiny_decoders();

/// What config.json can hold, in one line.
std::string essence(const ModelConfig& config);

}  // namespace trainyard
