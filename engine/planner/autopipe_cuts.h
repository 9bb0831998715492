// `partition: autopipe`: a model's ops in Merak's subgraphs, and those in stages.
#pragma once

#include <variant>

#include "engine/base/error.h"
#include "engine/graph/graph.h"
#include "engine/plan/plan.h"
#include "engine/planner/choose_cuts.h"
#include "engine/planner/op_profile.h"

namespace trainyard {

/// Cuts between subgraphs of partition.shards (partition/graph_shards.h; `bound` 0: 2 x layers + 4;
/// by layer: one for each, embedding and head apart), put into stages as Merak's AutoPipe does
/// (partition/autopipe.h, kCode), by the times of their ops. Merak weighs by the forward's FLOP,
/// and three times as many backward. Infeasible: there are fewer subgraphs than stages.
std::variant<CutChoice, Infeasible> autopipe_cuts(const Graph& graph,
                                                  const Indexed<OpId, OpProfile>& profile,
                                                  const PartitionConfig& partition, int num_stages);

}  // namespace trainyard
