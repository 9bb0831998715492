// Pass: sub-pipelined tensor parallelism, first half: what a run of layers does to a microbatch is
// done to each half of its sequences apart.
//
//   x -> split -> x/1, x/2      views of x, where the run begins
//   linear x/1 w -> y/1         every op of the run twice, one behind the other
//   linear x/2 w -> y/2
//   join y/1, y/2 -> y          in place, where the run ends
//
// half_order.h then orders the two halves so that one computes while what the other has computed is
// reduced. Weights are read by both, and both add to one gradient; what no sequence is part of
// (T5's score bias) is computed once. A dropout of the second half knows the sample that it begins
// with, so the masks are those of the whole microbatch. Lai et al., Merak (arXiv:2206.04959),
// section 5.3.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "engine/base/error.h"
#include "engine/graph/graph.h"
#include "engine/plan/plan.h"

namespace trainyard {

/// `first`: [run] its first layer, ascending, and num_layers at the end. Every microbatch has an
/// even number of sequences.
Graph split_batch(const Graph& graph, const std::vector<std::int64_t>& first);

/// The runs between which halves are joined: each layer, or with `overlap: across-blocks` each
/// stage; then Infeasible as layer_ranges().
std::variant<std::vector<std::int64_t>, Infeasible> halved_runs(const std::string& overlap,
                                                                std::int64_t num_layers,
                                                                int num_stages,
                                                                const PartitionConfig& partition);

}  // namespace trainyard
