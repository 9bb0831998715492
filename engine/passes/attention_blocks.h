// Attention whose keys and values are on several ranks, as blocks: attention to all keys at once,
// or to those of each rank in turn, while the next are on their way. Each block adds to what those
// before it made, by their log-sum-exp.
#pragma once

#include <cstdint>

#include "engine/graph/graph.h"
#include "engine/plan/plan.h"

namespace trainyard {

/// Every flash_attention of [q k v] becomes
///   split qkv -> q kv
///   ring        ring_shift kv -> kv.1 ; block_attention q kv -> o lse
///               ring_shift kv.1 -> kv.2 ; block_attention q kv.1 o lse -> o' lse' ; ... of `ranks`
///   all-gather  block_attention q kv -> o lse
/// on the whole tensors of one device: a shift moves each of `ranks` pieces of dim 1 one on. Where
/// each rank has a run of the sequence, blocks that a window hides from all ranks are left out, and
/// keys go no further. Where ranks see unlike numbers of keys, their blocks say so (`rank_work`):
/// with a window, and unless the sequence is cut from both ends.
Graph with_attention_blocks(Graph graph, const ContextConfig& context);

}  // namespace trainyard
