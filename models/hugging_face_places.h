// Where a config.json says a number of ModelConfig.
#pragma once

#include <string>
#include <string_view>

#include "models/json_object.h"

namespace trainyard {

/// The key that files of `type` have for `key` of the study's model block: the one that `json` has,
/// else one that the type has. "": none is known.
std::string key_in_file(const JsonObject& json, std::string_view type, std::string_view key);

}  // namespace trainyard
