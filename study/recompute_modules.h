// What `recompute.modules` names, held against the model.
#pragma once

#include "engine/graph/graph.h"
#include "study/study.h"

namespace trainyard {

/// Throws ConfigError where a pattern matches no module of a layer.
void check_recompute_modules(const Study& study, const Graph& model);

}  // namespace trainyard
