// All that is wrong with one input, for people.
#pragma once

#include <vector>

#include "engine/base/error.h"

namespace trainyard {

/// The mistakes of `error` as their file has them; what has no line there comes first.
std::vector<Mistake> mistakes_in_order(const ConfigError& error);

}  // namespace trainyard
