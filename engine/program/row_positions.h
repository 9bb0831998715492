// Which places of the sequence the rows of an activation are, on each rank.
#pragma once

#include <cstdint>

#include "engine/program/program.h"
#include "engine/sharding/spec_boxes.h"

namespace trainyard {

/// Positions of the sequence, dim 1, that `value` [B, S, ..] has on the rank at `at`, in its order;
/// where the value has come from the `shifted_by`-th rank before, round those that cut the dim:
/// what that rank has.
IndexRanges row_positions(const Program& program, ValueId value, const Coordinate& at,
                          std::int32_t shifted_by = 0);

}  // namespace trainyard
