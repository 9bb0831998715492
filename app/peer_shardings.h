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

/// Those of `kernels`, behind select_kernels(), that the graph has. On MAP's mesh (`parallel`): the
/// batch over the first k axes, megatron with and without a split sequence over the rest; smp over
/// all of them, for memory, with samples of the group's and of each rank's, and for speed; atp over
/// the first axes by the rest. On each other mesh of two axes atp, and megatron with the batch over
/// the first. Methods split the families that they have.
std::vector<NamedSharding> peer_shardings(const Graph& kernels, const ParallelConfig& parallel,
                                          Family family, PeerMeshes meshes);

}  // namespace trainyard
