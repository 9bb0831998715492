#include "engine/sharding/tensor_spec.h"

#include <algorithm>
#include <utility>

#include "engine/base/error.h"

namespace trainyard {

namespace {

AxisSet united(AxisSet a, AxisSet b) { return static_cast<AxisSet>(a | b); }

/// What is wrong with the axes of one list.
std::optional<std::string> list_problem(const Axes& axes, const DeviceMesh& mesh) {
  AxisSet seen = 0;
  for (const AxisId axis : axes) {
    if (axis < 0 || axis >= mesh.num_axes()) return "names an axis that the mesh does not have";
    if (mesh.axes[axis].stages)
      return "names " + mesh.axis_name(axis) + ", which tells stages apart";
    if (has(seen, axis)) return "names " + mesh.axis_name(axis) + " twice";
    seen = united(seen, bit(axis));
  }
  return std::nullopt;
}

std::optional<std::string> dim_problem(const DimSplit& dim, std::int64_t extent,
                                       const DeviceMesh& mesh) {
  constexpr std::size_t kMostParts = 16;
  if (dim.parts.size() > kMostParts)
    return "has more than " + std::to_string(kMostParts) + " parts";
  std::int64_t sum = 0;
  for (const DimPart& part : dim.parts) {
    if (auto problem = list_problem(part.axes, mesh)) return problem;
    if (part.unit < 1 || part.count < 0) return "has a part without elements";
    if (part.count == 0 && (dim.parts.size() > 1 || part.unit != 1))
      return "has a part without a count";
    if (part.count > kMostExtent / part.unit) return "has a part too large";
    sum += part.count * part.unit;
  }
  if (auto problem = list_problem(dim.after, mesh)) return problem;
  for (const DimPart& part : dim.parts) {
    if ((set_of(part.axes) & set_of(dim.after)) != 0) return "is cut twice by one axis";
    // Else ranks along an axis that leaves a part whole would have other chunks of it.
    if (!dim.after.empty() && set_of(part.axes) != set_of(dim.parts.front().axes))
      return "is cut behind parts that not all of its axes cut";
  }
  if (extent == kLateExtent) {
    if (is_packed(dim) || dim.parts.front().count != 0)
      return "is bound late and has counts all the same";
  } else if (dim.parts.front().count != 0 && sum != extent) {
    return "has parts of " + std::to_string(sum) + " elements, and " + std::to_string(extent) +
           " in all";
  }
  return std::nullopt;
}

std::optional<std::string> state_problem(const TensorSpec& spec, const DeviceMesh& mesh) {
  AxisSet seen = 0;
  const auto enter = [&](AxisId axis) -> std::optional<std::string> {
    if (auto problem = list_problem({axis}, mesh)) return "a state " + *problem;
    if (has(seen, axis)) return mesh.axis_name(axis) + " has two states";
    if (splits_everything(spec, axis))
      return mesh.axis_name(axis) + " splits a dim and has a state beside it";
    seen = united(seen, bit(axis));
    return std::nullopt;
  };
  for (const AxisSet set : {spec.partial, spec.entered}) {
    for (const AxisId axis : axes_of(set)) {
      if (auto problem = enter(axis)) return problem;
    }
  }
  for (const Held& held : spec.held) {
    if (auto problem = enter(held.axis)) return problem;
    if (held.coordinate < 0 || held.coordinate >= mesh.size(held.axis)) {
      return "H@" + std::to_string(held.coordinate) + " of " + mesh.axis_name(held.axis) +
             ", which has " + std::to_string(mesh.size(held.axis)) + " ranks";
    }
  }
  if (spec.maximum && (spec.partial == 0 || spec.entered != 0))
    return "a maximum is partial, and has no gradient to be entered for";
  return std::nullopt;
}

}  // namespace

TensorSpec replicated_spec(std::size_t num_dims) {
  TensorSpec spec;
  spec.dims.resize(num_dims);
  return spec;
}

TensorSpec dual(const TensorSpec& spec) {
  check(!spec.maximum, "a maximum has no gradient");
  TensorSpec out = spec;
  std::swap(out.partial, out.entered);
  return out;
}

DimSplit split_over(const Axes& axes) {
  DimSplit dim;
  dim.parts.front().axes = axes;
  return dim;
}

bool is_split(const DimSplit& dim) { return axes_in(dim) != 0; }

bool is_packed(const DimSplit& dim) { return dim.parts.size() > 1 || !dim.after.empty(); }

AxisSet axes_in(const DimSplit& dim) {
  AxisSet set = set_of(dim.after);
  for (const DimPart& part : dim.parts) set = united(set, set_of(part.axes));
  return set;
}

AxisSet axes_of_all_parts(const DimSplit& dim) {
  AxisSet set = set_of(dim.parts.front().axes);
  for (const DimPart& part : dim.parts) set = static_cast<AxisSet>(set & set_of(part.axes));
  return united(set, set_of(dim.after));
}

std::optional<int> dim_of(const TensorSpec& spec, AxisId axis) {
  for (std::size_t d = 0; d < spec.dims.size(); ++d) {
    if (has(axes_in(spec.dims[d]), axis)) return static_cast<int>(d);
  }
  return std::nullopt;
}

bool splits_everything(const TensorSpec& spec, AxisId axis) {
  return std::any_of(spec.dims.begin(), spec.dims.end(),
                     [&](const DimSplit& dim) { return has(axes_of_all_parts(dim), axis); });
}

AxisState state_beside(const TensorSpec& spec, AxisId axis) {
  if (has(spec.partial, axis)) return AxisState::kPartial;
  if (has(spec.entered, axis)) return AxisState::kEntered;
  return holder(spec, axis) ? AxisState::kHeld : AxisState::kReplicated;
}

std::optional<std::int32_t> holder(const TensorSpec& spec, AxisId axis) {
  for (const Held& held : spec.held) {
    if (held.axis == axis) return held.coordinate;
  }
  return std::nullopt;
}

void set_state(TensorSpec& spec, AxisId axis, AxisState state, std::int32_t coordinate) {
  const auto others = static_cast<AxisSet>(~bit(axis));
  spec.partial = static_cast<AxisSet>(spec.partial & others);
  spec.entered = static_cast<AxisSet>(spec.entered & others);
  const auto at = std::find_if(spec.held.begin(), spec.held.end(),
                               [&](const Held& held) { return held.axis >= axis; });
  const bool there = at != spec.held.end() && at->axis == axis;
  if (state == AxisState::kHeld && there) {
    at->coordinate = coordinate;
  } else if (state == AxisState::kHeld) {
    spec.held.insert(at, {axis, coordinate});
  } else if (there) {
    spec.held.erase(at);
  }
  if (state == AxisState::kPartial) spec.partial = united(spec.partial, bit(axis));
  if (state == AxisState::kEntered) spec.entered = united(spec.entered, bit(axis));
  if (spec.partial == 0) spec.maximum = false;
}

std::optional<std::string> spec_problem(const TensorSpec& spec, const Extents& extents,
                                        const DeviceMesh& mesh) {
  if (spec.dims.size() != extents.size()) {
    return "the spec has " + std::to_string(spec.dims.size()) + " dims, the tensor " +
           std::to_string(extents.size());
  }
  AxisSet seen = 0;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    const std::string dim = "dim " + std::to_string(d) + " ";
    if (auto problem = dim_problem(spec.dims[d], extents[d], mesh)) return dim + *problem;
    const AxisSet axes = axes_in(spec.dims[d]);
    if ((seen & axes) != 0)
      return dim + "is cut by " + mesh.axis_name(axes_of(seen & axes).front()) +
             ", which cuts another dim";
    seen = united(seen, axes);
  }
  return state_problem(spec, mesh);
}

}  // namespace trainyard
