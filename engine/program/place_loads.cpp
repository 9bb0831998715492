#include "engine/program/place_loads.h"

#include <cstddef>
#include <unordered_map>
#include <utility>

namespace trainyard {

namespace {

/// A layer of the piece that reads something loaded.
struct Unit {
  std::size_t begin =
      0;  // index into the piece: the first that reads a load which none before it has
  std::int32_t layer = -1;
  std::vector<const Instruction*> loads;
};

TensorId storage_of(const Graph& graph, TensorId id) {
  while (graph.tensors[static_cast<std::size_t>(id)].alias >= 0)
    id = graph.tensors[static_cast<std::size_t>(id)].alias;
  return id;
}

std::vector<Unit> find_units(const TrainingGraph& training,
                             const std::vector<const Instruction*>& piece) {
  std::unordered_map<TensorId, const Instruction*> load_of;  // of the storage that it fills
  for (const Instruction& load : training.loads) load_of.emplace(load.writes[0], &load);
  std::vector<Unit> units;
  for (std::size_t i = 0; i < piece.size(); ++i) {
    if (!piece[i]->recomputed) continue;
    for (const TensorId read : piece[i]->reads) {
      const auto found = load_of.find(storage_of(training.graph, read));
      if (found == load_of.end()) continue;
      if (units.empty() || units.back().layer != piece[i]->layer)
        units.push_back({i, piece[i]->layer, {}});
      units.back().loads.push_back(found->second);
      load_of.erase(found);
    }
  }
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
