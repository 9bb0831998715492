// Pass: Megatron's tensor and sequence parallelism. Turns the graph of one device into the graph of
// one tensor-parallel rank: local shapes, a sharding spec for every tensor, and the collectives
// that keep the result what it was.
//
//   column linear   x replicated  -> enter_tensor (its gradient is all-reduced)   y split by
//   feature
//                   x split by sequence -> all_gather (gradient: reduce_scatter)
//   row linear      x split by feature, y partial -> all_reduce, or reduce_scatter to sequence
//   shards vocabulary      table and LM head split by rows; the loss works on logit shards with two
//   small
//                   all-reduces (row maxima; sums of exponentials and the label's logit)
//   the rest        works on what it gets: whole tensors, or sequence shards (norms, dropout, add)
//
// Shoeybi et al. 2019 (arXiv:1909.08053) section 3; Korthikanti et al. 2022 (arXiv:2205.05198)
// section 4.
#pragma once

#include <variant>

#include "engine/base/error.h"
#include "engine/graph/graph.h"

namespace trainyard {

/// `tensor`: tensor-parallel degree. Infeasible when a dimension does not divide (the study's
/// checks catch the usual ones first, at the line that says them).
std::variant<Graph, Infeasible> shard_megatron(const Graph& graph, int tensor,
                                               bool sequence_parallel);

}  // namespace trainyard
