#include "app/peer_shardings.h"

#include <cstddef>
#include <utility>
#include <variant>

#include "engine/passes/tensor_methods.h"

namespace trainyard {

namespace {

/// Whether some first axes have so many ranks.
bool has_front(const std::vector<int>& mesh, int ranks) {
  int product = 1;
  for (const int size : mesh) product = product < ranks ? product * size : product;
  return product == ranks;
}

}  // namespace

std::vector<NamedSharding> peer_shardings(const Graph& kernels, const ParallelConfig& parallel,
                                          Family family, PeerMeshes meshes) {
  std::vector<NamedSharding> found;
  const auto add = [&](const PeerMesh& on, const std::string& where) {
    for (const TensorMethod& method : tensor_methods()) {
      if (method.peers == nullptr || !has_family(method, family)) continue;
      for (MapPeer& peer : method.peers(on)) {
        auto planned = peer.plan.plan(kernels);
        if (auto* graph = std::get_if<PlannedGraph>(&planned))
          found.push_back(
              {std::move(peer.name) + where, on.parallel.tensor_mesh, std::move(*graph)});
      }
    }
  };
  add({parallel}, "");
  if (meshes == PeerMeshes::kOwn) return found;
  for (int d1 = 2; d1 < parallel.tensor; ++d1) {
    if (parallel.tensor % d1 != 0 || has_front(parallel.tensor_mesh, d1)) continue;
    ParallelConfig other = parallel;
    const int d2 = parallel.tensor / d1;
    other.tensor_mesh = {d1, d2};
    add({other, false}, " on " + std::to_string(d1) + " x " + std::to_string(d2));
  }
  return found;
}

}  // namespace trainyard
