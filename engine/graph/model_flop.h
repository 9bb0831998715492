// The model's own arithmetic, as papers count it.
#pragma once

#include "engine/graph/graph.h"

namespace trainyard {

/// FLOP of the products of a forward pass: 2 per multiply-add, rows that only pad a vocabulary not
/// among them, attention as the full square. `graph` is unsharded.
Flop model_flop(const Graph& graph);

}  // namespace trainyard
