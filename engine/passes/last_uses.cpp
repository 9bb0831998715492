#include "engine/passes/last_uses.h"

#include <algorithm>

#include "engine/passes/release_points.h"

namespace trainyard {

void LastUses::find(const PlacedLoads& piece) {
  instructions_ = &piece.instructions;
  loaded_from_.clear();
  for (const Instruction* load : piece.all) loaded_from_.emplace(load->writes[0], load->reads[0]);
  const std::vector<std::size_t> release = release_points(piece.instructions);
  released_.assign(piece.instructions.size(), {});
  for (const Instruction* op : piece.instructions) {
    for_storages(*op, [&](TensorId storage) { last_[storage] = 0; });
  }
  for (std::size_t i = 0; i < piece.instructions.size(); ++i) {
    released_[release[i]].push_back(i);
    for_storages(*piece.instructions[i], [&](TensorId storage) {
      std::size_t& last = last_[storage];
      last = std::max(last, release[i]);
    });
  }
}

}  // namespace trainyard
