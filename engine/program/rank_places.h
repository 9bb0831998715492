// Where ranks stand on a Program's mesh: its placement, read both ways.
#pragma once

#include <cstdint>

#include "engine/program/program.h"

namespace trainyard {

std::int32_t coordinate(const Program& program, std::int64_t rank, AxisId axis);
Coordinate coordinate_of(const Program& program, std::int64_t rank);
std::int64_t rank_at(const Placement& placement, const Coordinate& at);

/// Its coordinate on the stage axis, which is the index of its list in Program::body.
std::int32_t pipeline_rank(const Program& program, std::int64_t rank);

/// Its place in its group over these axes, the first axis the slowest.
std::int64_t place_in_group(const Program& program, const Axes& axes, std::int64_t rank);

}  // namespace trainyard
