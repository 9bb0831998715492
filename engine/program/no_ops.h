// Ops of a rank's list that do nothing on the rank. They keep their place in the order, wait for
// what they would wait for, and take no time; no executor communicates for them, and no trace has a
// row of them.
//
// Which do is the same in every step, but for kernels whose guard is false: those a device knows of
// when it has run them.
#pragma once

#include <cstdint>

#include "engine/program/program.h"

namespace trainyard {

/// A collective in a group of one, where a rank at this pipeline rank runs it: its result is what
/// it reads.
bool has_no_peers(const Program& program, const ProgramOp& op, std::int32_t pipeline_rank);

/// Also a kernel that `rank` leaves to another replica (owners.h).
bool does_nothing(const Program& program, const ProgramOp& op, std::int64_t rank);

}  // namespace trainyard
