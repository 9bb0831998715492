// What an op's attributes and results tell its index space beside the operands: orders, ranges,
// numbers of pieces.
#pragma once

#include <vector>

#include "engine/graph/graph.h"
#include "engine/sharding/op_index_table.h"

namespace trainyard {

/// `operands`, `results`: their extents, all of unsharded tensors or all of one rank's.
OpParameters op_parameters(OpKind kind, const OpAttrs& attrs, const std::vector<Extents>& operands,
                           const std::vector<Extents>& results);

}  // namespace trainyard
