// Values that one rank of each group, Program::owners, holds for all: optimizer state, where
// parameters are not cut.
//
// Lists are the same for all ranks, so an owner is a place in the group that values name. A kernel
// that touches a value with an owner runs on its owner; the others pass it by, in its place of the
// order: it takes no time there, but waits for what it would wait for. A reduce of the group writes
// a value of its root, a broadcast reads one (else its root is the first member); other collectives
// run on all ranks, whoever needs the result.
#pragma once

#include <cstdint>

#include "engine/program/program.h"

namespace trainyard {

/// Place among the owners of the ranks that run a kernel, or of the root of a reduce or broadcast.
/// -1: all ranks run it, there is no root.
std::int32_t owner_of(const Program& program, const ProgramOp& op);

/// Whether `rank` leaves a kernel to another owner.
bool passes_by(const Program& program, const ProgramOp& op, std::int64_t rank);

bool has_owners(const Program& program);

/// What is wrong with the owners of the values that `op` touches; null: nothing.
const char* find_owner_problem(const Program& program, const ProgramOp& op);

}  // namespace trainyard
