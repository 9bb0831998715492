// Which samples of a step a rank computes of a microbatch.
#pragma once

#include "engine/plan/microbatch_sizes.h"
#include "engine/program/program.h"

namespace trainyard {

/// Their numbers in the step, of the rank at `at`; `rows`: a value whose first dim they are. With
/// replicas of each pipeline rank all of these share a microbatch. `program` says its documents.
SequenceRange samples_of_rank(const Program& program, ValueId rows, const Coordinate& at,
                              Microbatch mb);

}  // namespace trainyard
