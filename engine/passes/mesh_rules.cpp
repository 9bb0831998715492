#include "engine/passes/mesh_rules.h"

#include <algorithm>

#include "engine/passes/moved_parameters.h"

namespace trainyard {

bool is_weight(const Op& op, std::size_t input) { return is_weighted(op.kind) && input == 1; }

bool divides_outputs(const PlannedOps& planned, const Op& linear, std::int64_t ranks) {
  const Tensor& weight = planned.tensor(linear.inputs[1]);
  if (weight.parameter != kNoIndex) {
    const auto& parts = planned.graph.parameters[weight.parameter].parts;
    const auto whole = [&](const ParameterPart& part) { return part.rows % ranks == 0; };
    if (!std::ranges::all_of(parts, whole)) return false;
  }
  return weight.shape[0] % ranks == 0;
}

AxisSet feature_axes(const PlannedOps& planned, TensorId id, AxisSet axes) {
  AxisSet out = 0;
  const TensorSpec& spec = planned.spec(id);
  for (std::size_t d = 0; d < spec.dims.size(); ++d) {
    if (static_cast<int>(d) != planned.batch_dims[id])
      out = static_cast<AxisSet>(out | (axes_in(spec.dims[d]) & axes));
  }
  return out;
}

std::vector<IndexSplit> as_features_lie(const PlannedOps& planned, const Op& op,
                                        const IndexSpace& space, AxisSet axes) {
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const TensorId input = op.inputs[i];
    if (planned.is_parameter(input)) continue;
    const AxisSet split = feature_axes(planned, input, axes);
    if (split == 0) continue;
    if (op.attrs->heads > 0) return {{index_named(space, "g"), axes_of(split)}};
    const TensorSpec& spec = planned.spec(input);
    for (std::size_t d = 0; d < spec.dims.size(); ++d) {
      const bool features =
          static_cast<int>(d) != planned.batch_dims[input] && (axes_in(spec.dims[d]) & split) != 0;
      if (!features) continue;
      const int index = index_of_dim(space.operands[i], static_cast<int>(d));
      if (space.indices[index].use == IndexUse::kFree) return {{index, axes_of(split)}};
    }
  }
  return {};
}

TensorSpec cut_further(const PlannedOps& planned, TensorId weight, TensorSpec used, std::size_t dim,
                       const Axes& axes) {
  DimSplit& split = used.dims[dim];
  if (split.parts.size() > 1) return used;
  Axes all = split.parts.front().axes;
  all.insert(all.end(), axes.begin(), axes.end());
  if (planned.tensor(weight).shape[dim] % group_size(planned.sharding.mesh, all) != 0) return used;
  split = split_over(all);
  return used;
}

}  // namespace trainyard
