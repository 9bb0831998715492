#include "engine/passes/op_planner.h"

namespace trainyard {

SplitHint PlannedOps::hint(TensorId id) const {
  const ParameterId parameter = tensor(id).parameter;
  return parameter == kNoIndex ? SplitHint::kNone : graph.parameters[parameter].split;
}

std::optional<SplitDim> dim_split_over(const TensorSpec& spec, AxisSet axes) {
  for (std::size_t d = 0; d < spec.dims.size(); ++d) {
    SplitDim out{static_cast<int>(d), {}};
    for (const AxisId axis : spec.dims[d].parts.front().axes) {
      if (has(axes, axis)) out.axes.push_back(axis);
    }
    if (!out.axes.empty()) return out;
  }
  return std::nullopt;
}

int index_named(const IndexSpace& space, std::string_view name) {
  for (const std::int64_t i : space.indices.keys()) {
    if (space.indices[i].name == name) return static_cast<int>(i);
  }
  bug("an index space without index " + std::string(name));
}

int index_of_dim(const IndexedTensor& operand, int dim) {
  return operand.dims[static_cast<std::size_t>(dim)].front().indices.front();
}

}  // namespace trainyard
