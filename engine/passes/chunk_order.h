// Pass: tensor parallelism in chunks, second half: the order of the chunks of a microbatch.
//
// Each chunk's ops are cut behind its collectives. Forward, the first piece of chunk 1 is followed
// by those of the others, then the second piece of each: attention 1, attention 2 | MLP 1, MLP 2 |
// ...; while the main stream computes the one chunk, the tensor stream reduces another. Backward
// goes from the last chunk to the first. What is recomputed comes in the order of the forward.
// split_batch.h makes the chunks. Lai et al., Merak (arXiv:2206.04959), section 5.3, of two.
#pragma once

#include <vector>

#include "engine/partition/stage_partition.h"

namespace trainyard {

struct Instruction;

/// Orders the forward ops, stage by stage.
void order_chunks(StagedGraph& staged);
/// Orders one microbatch's backward.
void order_chunks(std::vector<Instruction>& backward);

}  // namespace trainyard
