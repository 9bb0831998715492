// Behind which instruction of a segment the operands of an instruction may be freed.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/graph/differentiate.h"

namespace trainyard {

/// [instruction]: itself; for a collective between halves of a batch (half_order.h) the first
/// instruction that reads its result. A free waits on the main stream, so one right behind such a
/// collective would keep the other half from running beside it.
std::vector<std::size_t> release_points(const std::vector<const Instruction*>& instructions);

}  // namespace trainyard
