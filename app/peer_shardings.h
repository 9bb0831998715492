// The shardings of other methods, which are tried beside the answers of MAP's program.
#pragma once

#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/passes/sharding.h"
#include "engine/plan/plan.h"

namespace trainyard {

struct NamedSharding {
  std::string name;       // "megatron, batch over tp0"
  std::vector<int> mesh;  // of the tensor group
  PlannedGraph planned;
};

enum class PeerMeshes : std::uint8_t {
  kOwn,  // the study says the mesh
  kAll   // of two axes
};

/// Those of `kernels`, behind select_kernels(), that the graph has: what the rows of methods that
/// split `family` have as peers (engine/passes/map_peers.h), on MAP's mesh (`parallel`) and on each
/// other one of two axes.
std::vector<NamedSharding> peer_shardings(const Graph& kernels, const ParallelConfig& parallel,
                                          Family family, PeerMeshes meshes);

}  // namespace trainyard
