// Which move leads from one spec to another: the axes that it is along, which are the group of its
// collective, and what becomes of them. A fact about the two specs, and of nothing else.
#pragma once

#include <optional>

#include "engine/sharding/move.h"

namespace trainyard {

/// The one move between two specs of a tensor; nullopt: they are alike, or apart by several moves.
/// S: the axes stand in the order of the list that they leave, else of the one that they join, all
/// other axes ascend. Where no gradient flows E and R are one: they are told apart only where
/// nothing else differs. Elements of a packed dim that an axis does not split stay as they are.
std::optional<Move> move_between(const TensorSpec& from, const TensorSpec& to);

/// Its axes; none where it is no single move.
Axes moved_axes(const TensorSpec& from, const TensorSpec& to);

}  // namespace trainyard
