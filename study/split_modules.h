// Whether the modules that parallel.tensor_modules, a table of method auto and parallel.zero.units
// name are those of the model.
#pragma once

#include <string>

#include "engine/graph/graph.h"
#include "study/study.h"

namespace trainyard {

/// Key path of an entry of parallel.zero.units.
inline std::string units_item(std::size_t number) {
  return "parallel.zero.units[" + std::to_string(number) + "]";
}

/// Throws ConfigError, at the pattern's key, where one matches no module, or what it says of one
/// cannot be.
void check_split_modules(const Study& study, const Graph& model);
void check_gathered_modules(const Study& study, const Graph& model);

}  // namespace trainyard
