// What a general op tells the table of index spaces beside its operands' extents.
#pragma once

#include "engine/graph/graph.h"
#include "engine/sharding/op_index_table.h"

namespace trainyard {

/// From the op's attributes and the shapes that its tensors have in `graph`, which are global.
OpParameters op_parameters(const Graph& graph, const Op& op);

}  // namespace trainyard
