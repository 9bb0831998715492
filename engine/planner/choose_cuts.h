// `partition: {method: cost}` and `{method: parameters}`: stages whose largest load is least.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "engine/base/error.h"
#include "engine/cluster/cluster.h"
#include "engine/cost/transfer_time.h"
#include "engine/graph/graph.h"
#include "engine/plan/plan.h"
#include "engine/planner/op_profile.h"

namespace trainyard {

/// Seconds that a transfer between two stages takes: latency, and so many per byte.
struct TransferRate {
  Seconds latency = 0;
  double per_byte = 0;
};

/// For messages as large as activations are.
TransferRate transfer_rate(const Cluster& cluster, Distance distance);

struct CutChoice {
  std::vector<StageCut> cuts;
  std::string reason;  // "cost: the largest of 4 stages takes 12.1 ms of 40.2 ms"
};

/// First ops of the pieces that no cut divides, ascending; the first is the graph's. Between ops
/// each piece begins where a stage may, with one that takes time forward and has a parameter of its
/// own.
Numbered<OpId> pieces_between(const Graph& graph, const Indexed<OpId, OpProfile>& profile,
                              PartitionConfig::Between between);

/// The cuts of `graph` into stages with the least largest load: of method cost a stage's time of
/// kernels, forward and backward, and its transfers, those of both sides; of parameters their
/// number. `between` layers a stage begins with the first op of one; between ops with any op that
/// computes. Whatever is in front of the first layer goes with it, what is behind the last with
/// that. Infeasible: there are fewer places to cut than stages ask for.
std::variant<CutChoice, Infeasible> choose_cuts(const Graph& graph,
                                                const Indexed<OpId, OpProfile>& profile,
                                                const PartitionConfig& partition, int num_stages,
                                                const TransferRate& transfer);

}  // namespace trainyard
