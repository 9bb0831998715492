// What one rank has of a value, and what it receives: of dims that ranks have unlike many elements
// of, the Program says the largest piece and the whole (sharding/uneven_pieces.h).
#pragma once

#include <cstdint>
#include <vector>

#include "engine/program/program.h"

namespace trainyard {

/// Extents of what the rank at `at` has of a value.
std::vector<std::int64_t> own_extents(const Program& program, const Value& value,
                                      const Coordinate& at);

/// Bytes that the rank at `at` receives from the other members in a collective or a transfer: what
/// it lacks of what it gathers, the others' summands of what it keeps, a share of both where all
/// reduce, its new pieces where splits move.
double received_bytes(const Program& program, const ProgramOp& op, const Coordinate& at);

}  // namespace trainyard
