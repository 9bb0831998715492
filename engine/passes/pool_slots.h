// How many slots the pools of a Program have.
#pragma once

#include <cstdint>
#include <map>

#include "engine/program/program.h"

namespace trainyard {

/// Slots that fit into each persistent buffer: as many of its largest value as its bytes hold,
/// maybe none.
std::map<PoolId, std::int64_t> buffer_slots(const Program& program);

/// Fills Pool::slots from the lists: the most instances alive at once in issue order; of a
/// persistent buffer what fits into it, but no more than a step puts there (between steps nothing
/// lies in it, so that more would change nothing).
void count_slots(Program& program);

}  // namespace trainyard
