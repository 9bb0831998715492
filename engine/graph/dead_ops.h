// Ops that a graph can do without.
#pragma once

#include <string>
#include <vector>

#include "engine/graph/graph.h"

namespace trainyard {

/// Removes the ops that the loss does not depend on, with their results and the inputs, constants
/// and parameters that nothing else reads. Returns the names of the ops' first results. `graph` is
/// as a GraphBuilder has made it.
std::vector<std::string> drop_dead_ops(Graph& graph);

}  // namespace trainyard
