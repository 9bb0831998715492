// The ways to split one op that MAP tries.
#pragma once

#include <vector>

#include "engine/passes/sharding.h"

namespace trainyard {

/// Each of `tensor` splits one index of the op or none, axes of an index in the mesh's order; late
/// axes as in `whole`. Only those with which ranks have as much. Of products, whose work counts,
/// those alone that use as many ranks as any does. A cross entropy's are those of its logits'
/// vocabulary too, which an expansion brings along. With `fp8` of layers that are cast those alone
/// whose weights ranks can cast parts of. Adds specs to `sharding`, that of whole or one
/// with its mesh. Empty: the op has none.
std::vector<SplitOp> splits_of_op(const Graph& graph, OpId id, const Axes& tensor,
                                  const PlannedGraph& whole, bool fp8, Sharding& sharding);

}  // namespace trainyard
