#include "engine/passes/release_points.h"

#include <unordered_map>

namespace trainyard {

std::vector<std::size_t> release_points(const std::vector<const Instruction*>& instructions) {
  std::vector<std::size_t> points(instructions.size());
  std::unordered_map<TensorId, std::size_t> next_reader;
  for (std::size_t i = instructions.size(); i-- > 0;) {
    const Instruction& op = *instructions[i];
    points[i] = i;
    if (is_collective(op.kind)) {
      const auto reader = next_reader.find(op.writes[0]);
      if (reader != next_reader.end()) points[i] = reader->second;
    }
    for (TensorId read : op.reads) next_reader[read] = i;
  }
  return points;
}

}  // namespace trainyard
