// Pass: sub-pipelined tensor parallelism, second half: the order of the two halves of a microbatch.
//
// Each half's ops are cut behind its collectives. Forward, the first piece of half 1 is followed by
// that of half 2, then the second piece of each: attention 1, attention 2 | MLP 1, MLP 2 | ...;
// while the main stream computes the one half, the tensor stream reduces the other. Backward goes
// half 2 before half 1. What is recomputed comes in the order of the forward. split_batch.h makes
// the halves. Lai et al., Merak (arXiv:2206.04959), section 5.3.
#pragma once

#include <vector>

#include "engine/partition/stage_partition.h"

namespace trainyard {

struct Instruction;

/// Orders the forward ops, stage by stage.
void order_halves(StagedGraph& staged);
/// Orders one microbatch's backward.
void order_halves(std::vector<Instruction>& backward);

}  // namespace trainyard
