#include "engine/passes/carried_specs.h"

#include "engine/passes/moved_parameters.h"
#include "engine/passes/plan_mesh.h"
#include "engine/sharding/moved_axes.h"

namespace trainyard {

SpecId CarriedSpecs::spec(SpecId of_graph) {
  if (of_graph == kNoIndex) return kNoIndex;
  if (!specs_.has(of_graph)) specs_.resize(graph_.specs.size());
  std::optional<SpecId>& known = specs_[of_graph];
  if (!known) known = add_spec(program_, graph_.specs[of_graph]);
  return *known;
}

GroupId CarriedSpecs::group(const Instruction& move) {
  const SpecId from = read_spec(graph_, move.reads[0]), to = graph_.tensors[move.writes[0]].spec;
  if (from == kNoIndex || to == kNoIndex) return kTensorGroup;
  const SpecTable& specs = graph_.specs;
  if (move.kind == OpKind::kRingShift) {
    const DimSplit& dim = specs[from].dims.begin()[move.attrs->dim];
    return group_over(program_, dim.parts.front().axes);
  }
  if (specs[from].dims.size() != specs[to].dims.size()) return kTensorGroup;
  GroupId& known = groups_.try_emplace({from, to}, kNoIndex).first->second;
  if (known != kNoIndex) return known;
  const auto between = move_between(specs[from], specs[to]);
  // The largest of equal values is that value: such an all-reduce moves nothing.
  return known = between ? group_over(program_, between->axes) : kTensorGroup;
}

}  // namespace trainyard
