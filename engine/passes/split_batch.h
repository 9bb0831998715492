// Pass: tensor parallelism in chunks, first half: what a run of ops does to a microbatch is done to
// each chunk of its samples apart.
//
//   x -> split -> x/1, x/2      views of x, where the run begins
//   linear x/1 w -> y/1         every op of the run once for each chunk, one behind the other
//   linear x/2 w -> y/2
//   join y/1, y/2 -> y          in place, where the run ends
//
// chunk_order.h then orders the chunks so that one computes while what another has computed is
// reduced. A run is, by TensorOverlap::Scope,
//
//   linear          a product in a layer with what gathers its operand, adds up or scatters its
//                   result, and adds a bias or a residual to the sum: each chunk's collective runs
//                   beside the next chunk's product. Where the backward alone communicates there
//                   is none: its collective hides behind the weight's gradient (differentiate.h)
//   block           a layer (ATP; Cheng et al., arXiv:2301.08658, section 4.1)
//   across-blocks   all layers of a stage (Lai et al., Merak, arXiv:2206.04959, section 5.3)
//
// Weights are read by all chunks, and all add to one gradient; what no sample is part of (T5's
// score bias) is computed once. A dropout of a chunk knows the sample that it begins with, so the
// masks are those of the whole microbatch. A product whose samples do not divide is cut along its
// rows, samples times positions, unless what it communicates splits one of these.
#pragma once

#include <variant>

#include "engine/base/error.h"
#include "engine/graph/graph.h"
#include "engine/plan/plan.h"
#include "engine/plan/tensor_overlap.h"

namespace trainyard {

/// `overlap`: on. `sizes`: samples of the plan's microbatches, `graph` being of one of them.
/// Infeasible, at parallel.tensor_overlap, where the chunks do not divide a microbatch, with the
/// numbers that divide all; else as layer_ranges().
std::variant<Graph, Infeasible> split_batch(const Graph& graph, const TensorOverlap& overlap,
                                            int num_stages, const PartitionConfig& partition,
                                            const std::vector<std::int64_t>& sizes);

}  // namespace trainyard
