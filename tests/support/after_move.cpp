#include "tests/support/after_move.h"

#include <algorithm>
#include <string>

namespace trainyard {

namespace {

bool ends_with(const Axes& list, const Axes& suffix) {
  return list.size() >= suffix.size() &&
         std::equal(suffix.begin(), suffix.end(), list.end() - static_cast<int>(suffix.size()));
}

/// Takes `axes` off the end of every list that has them; false: they are no suffix.
bool take_off(DimSplit& dim, const Axes& axes) {
  const auto shorten = [&](Axes& list) {
    if (!ends_with(list, axes)) return false;
    list.resize(list.size() - axes.size());
    return true;
  };
  if (!dim.after.empty()) return shorten(dim.after);
  bool taken = false;
  for (DimPart& part : dim.parts) {
    if ((set_of(part.axes) & set_of(axes)) == 0) continue;
    if (!shorten(part.axes)) return false;
    taken = true;
  }
  return taken;
}

void put_on(DimSplit& dim, const Axes& axes) {
  const auto lengthen = [&](Axes& list) { list.insert(list.end(), axes.begin(), axes.end()); };
  if (!dim.after.empty()) return lengthen(dim.after);
  for (DimPart& part : dim.parts) lengthen(part.axes);
}

/// A list of the same axes in the order of the move.
bool reorder(DimSplit& dim, const Axes& axes) {
  if (is_packed(dim) || set_of(dim.parts.front().axes) != set_of(axes)) return false;
  dim.parts.front().axes = axes;
  return true;
}

}  // namespace

std::variant<TensorSpec, Infeasible> after_move(const TensorSpec& spec, const Move& move,
                                                const DeviceMesh& mesh) {
  TensorSpec out = spec;
  std::string names;
  for (const AxisId axis : move.axes) names += (names.empty() ? "" : " ") + mesh.axis_name(axis);
  if (move.axes.empty()) return Infeasible{"a move of no axis"};
  const auto dims = static_cast<int>(spec.dims.size());
  const bool from_split = move.from == AxisState::kSplit;
  const bool to_split = move.to == AxisState::kSplit;
  if ((from_split && (move.from_dim < 0 || move.from_dim >= dims)) ||
      (to_split && (move.to_dim < 0 || move.to_dim >= dims)))
    return Infeasible{"no such dim"};
  if (move.to == AxisState::kHeld &&
      (move.axes.size() > 1 || move.coordinate < 0 || move.coordinate >= mesh.size(move.axes[0])))
    return Infeasible{"one coordinate of one axis holds a tensor"};
  if (from_split && to_split && move.from_dim == move.to_dim) {
    if (!reorder(out.dims.begin()[move.from_dim], move.axes))
      return Infeasible{names + " is no other order of the dim's axes"};
    return out;
  }
  if (from_split) {
    if (!take_off(out.dims.begin()[move.from_dim], move.axes))
      return Infeasible{names + " is no suffix of the dim's axes"};
  } else {
    for (const AxisId axis : move.axes) {
      if (splits_everything(spec, axis) || state_beside(spec, axis) != move.from)
        return Infeasible{mesh.axis_name(axis) + " is not in state " + letter(move.from)};
    }
  }
  for (const AxisId axis : move.axes) {
    if (to_split && dim_of(out, axis) && !from_split)
      return Infeasible{mesh.axis_name(axis) + " splits some parts already"};
    set_state(out, axis, to_split ? AxisState::kReplicated : move.to, move.coordinate);
  }
  out.maximum = out.partial != 0 && spec.maximum;
  if (to_split) put_on(out.dims.begin()[move.to_dim], move.axes);
  return out;
}

}  // namespace trainyard
