// Ops that a graph can do without.
#pragma once

#include <cstdint>

#include "engine/graph/graph.h"

namespace trainyard {

/// Removes the ops that the loss does not depend on, with their results and the inputs, constants
/// and parameters that nothing else reads. Returns how many ops they were. `graph` is as a
/// GraphBuilder has made it.
std::int64_t drop_dead_ops(Graph& graph);

}  // namespace trainyard
