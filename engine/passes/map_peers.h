// The shardings of other methods that one which splits ops by cost (map) tries beside its own, so
// that it is never slower than these: what their rows in tensor_methods.h answer.
#pragma once

#include <string>
#include <vector>

#include "engine/passes/plan_method.h"
#include "engine/plan/plan.h"

namespace trainyard {

struct MapPeer {
  std::string name;  // "megatron, batch over tp0"
  MethodPlan plan;   // on the axes of PeerMesh::parallel
};

/// `parallel` with a mesh of several axes, as map has it.
struct PeerMesh {
  const ParallelConfig& parallel;
  bool own = true;  // map's own; else one of two axes that links do not ask for
};

/// The batch over the first k axes, with and without a split sequence over the rest; of another
/// mesh the batch over the first.
std::vector<MapPeer> megatron_peers(const PeerMesh& on);
/// The first k axes by the rest; of another mesh the first by the second.
std::vector<MapPeer> atp_peers(const PeerMesh& on);
/// On map's own mesh: over all axes, for memory with a group's samples and with each rank's, and
/// for speed. With a group's samples that is Megatron's.
std::vector<MapPeer> smp_peers(const PeerMesh& on);

}  // namespace trainyard
