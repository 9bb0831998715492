// The last step of apply_sharding(): specs of dims of which ranks have unlike many elements say how
// many all have together, by which each rank of the Program knows its own
// (sharding/uneven_pieces.h).
#pragma once

#include <optional>

#include "engine/passes/sharding.h"

namespace trainyard {

/// `whole`: the shapes of all tensors before they were cut. Infeasible where a view would lie at
/// another place on each rank.
std::optional<Infeasible> count_uneven_dims(Graph& graph, const Indexed<TensorId, Shape>& whole,
                                            Sharding& sharding);

}  // namespace trainyard
