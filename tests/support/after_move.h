// What a move (engine/sharding/move.h) does to a spec, by its definition alone: what searches make
// of moves is held against it.
#pragma once

#include <variant>

#include "engine/base/error.h"
#include "engine/sharding/move.h"

namespace trainyard {

/// The state in which `move` leaves a spec; why it does not apply to it: the axes are in another
/// state, or no suffix of the list. Slices cut all parts of a packed dim alike; permutations change
/// dims of one part.
std::variant<TensorSpec, Infeasible> after_move(const TensorSpec& spec, const Move& move,
                                                const DeviceMesh& mesh);

}  // namespace trainyard
