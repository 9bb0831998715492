// Whether the modules that parallel.tensor_modules and a table of method auto name are those of the
// model.
#pragma once

#include "engine/graph/graph.h"
#include "study/study.h"

namespace trainyard {

/// Throws ConfigError, at the pattern's key, where one matches no module, or what it says of one
/// cannot be.
void check_split_modules(const Study& study, const Graph& model);

}  // namespace trainyard
