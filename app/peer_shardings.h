// The shardings of other methods on the mesh that MAP has, which are tried beside its program's
// answers.
#pragma once

#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/passes/plan_map.h"
#include "engine/passes/sharding.h"
#include "engine/plan/plan.h"

namespace trainyard {

struct NamedSharding {
  std::string name;  // "megatron, batch over tp0"
  PlannedGraph planned;
};

/// Those of `kernels`, behind select_kernels(): the batch over the first k axes, megatron with and
/// without a split sequence over the rest; and of families that are made of layers atp over the
/// first axes by the rest. Those that the graph has.
std::vector<NamedSharding> peer_shardings(const Graph& kernels, const MapPlan& plan, Family family);

std::string axes_text(const DeviceMesh& mesh, const Axes& axes);  // "tp0 tp1"

}  // namespace trainyard
