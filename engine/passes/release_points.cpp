#include "engine/passes/release_points.h"

#include <numeric>
#include <unordered_map>

namespace trainyard {

std::vector<std::size_t> release_points(const std::vector<const Instruction*>& instructions) {
  std::vector<std::size_t> points(instructions.size());
  std::iota(points.begin(), points.end(), 0);
  std::unordered_map<TensorId, std::size_t> writer;  // of what a collective before has written
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    const Instruction& op = *instructions[i];
    for (TensorId read : op.reads) {
      if (writer.empty()) break;
      const auto by = writer.find(read);
      if (by == writer.end()) continue;
      points[by->second] = i;
      writer.erase(by);
    }
    if (is_collective(op.kind)) writer[op.writes[0]] = i;
  }
  return points;
}

}  // namespace trainyard
