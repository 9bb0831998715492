// A small model of each family, and what Hugging Face's config.json can say of one.
#pragma once

#include <string>

#include "engine/plan/model_config.h"

namespace trainyard {

ModelConfig tiny(Family family);

/// What config.json can hold, in one line.
std::string essence(const ModelConfig& config);

}  // namespace trainyard
