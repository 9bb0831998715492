// Which op takes a slot of a pool: the one that first writes into the slot's value.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/program/program.h"

namespace trainyard {

/// The value with a pool whose slot op `k` of a segment takes: what it writes, or of several
/// receives into views of one the first. A join writes in place: its slot is taken. kNoIndex: none.
ValueId slot_taken(const Program& program, const std::vector<ProgramOp>& ops, std::size_t k);

}  // namespace trainyard
