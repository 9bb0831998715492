// Behind which instruction of a segment the operands of an instruction may be freed.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/passes/differentiate.h"

namespace trainyard {

/// [instruction]: itself; for a collective the first instruction that reads its result, where one
/// does. A free waits on the main stream, so one right behind a collective would keep what could
/// run beside it, the product for a weight's gradient or the other half of a batch, from doing so.
std::vector<std::size_t> release_points(const std::vector<const Instruction*>& instructions);

}  // namespace trainyard
