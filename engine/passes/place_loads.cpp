#include "engine/passes/place_loads.h"

#include <cstddef>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "engine/graph/tensor_storage.h"

namespace trainyard {

namespace {

/// A layer of the piece that reads something loaded.
struct Unit {
  std::size_t begin =
      0;  // index into the piece: the first that reads a load which none before it has
  std::int32_t layer = -1;
  std::vector<const Instruction*> loads;
};

using LoadOf = std::unordered_map<TensorId, const Instruction*>;  // of the storage that it fills

/// Calls visit(load, index) for what instructions of the piece read that is loaded.
template <typename Visit>
void for_loads(const TrainingGraph& training, const std::vector<const Instruction*>& piece,
               const LoadOf& load_of, const Visit& visit) {
  for (std::size_t i = 0; i < piece.size(); ++i) {
    for (const TensorId read : piece[i]->reads) {
      const auto found = load_of.find(storage_of(training.graph, read));
      if (found != load_of.end()) visit(found->second, i);
    }
  }
}

/// A layer that was kept may read what another one is recomputed from (a mask), and do so first.
std::vector<Unit> find_units(const TrainingGraph& training,
                             const std::vector<const Instruction*>& piece) {
  LoadOf load_of;
  for (const Instruction& load : training.loads) load_of.emplace(load.writes[0], &load);
  std::unordered_set<const Instruction*> own;  // of this piece, and not in a unit yet
  for_loads(training, piece, load_of, [&](const Instruction* load, std::size_t i) {
    if (piece[i]->recomputed) own.insert(load);
  });
  std::vector<Unit> units;
  for_loads(training, piece, load_of, [&](const Instruction* load, std::size_t i) {
    if (own.erase(load) == 0) return;
    if (units.empty() || units.back().layer != piece[i]->layer)
      units.push_back({i, piece[i]->layer, {}});
    units.back().loads.push_back(load);
  });
  return units;
}

}  // namespace

PlacedLoads place_loads(const TrainingGraph& training, std::vector<const Instruction*> piece,
                        int horizon) {
  PlacedLoads out;
  if (training.loads.empty()) {
    out.instructions = std::move(piece);
    return out;
  }
  const std::vector<Unit> units = find_units(training, piece);
  const auto early = static_cast<std::size_t>(horizon);
  std::size_t next = 0;  // unit that begins next
  for (std::size_t u = 0; u < units.size(); ++u) {
    out.all.insert(out.all.end(), units[u].loads.begin(), units[u].loads.end());
    if (u < early) out.ahead.insert(out.ahead.end(), units[u].loads.begin(), units[u].loads.end());
  }
  for (std::size_t i = 0; i < piece.size(); ++i) {
    if (next < units.size() && units[next].begin == i) {
      if (next + early < units.size()) {
        const auto& loads = units[next + early].loads;
        out.instructions.insert(out.instructions.end(), loads.begin(), loads.end());
      }
      ++next;
    }
    out.instructions.push_back(piece[i]);
  }
  return out;
}

}  // namespace trainyard
