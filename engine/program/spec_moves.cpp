#include "engine/program/spec_moves.h"

#include <algorithm>

#include "engine/program/dim_cuts.h"

namespace trainyard {

namespace {

using Problem = std::optional<std::string>;

bool same_dims(const TensorSpec& a, const TensorSpec& b) {
  return std::equal(a.dims.begin(), a.dims.end(), b.dims.begin(), b.dims.end(), cut_alike);
}

/// Takes the axes off the end of a list, in that order.
bool take_suffix(Axes& list, const Axes& axes) {
  if (list.size() < axes.size() || !std::equal(axes.rbegin(), axes.rend(), list.rbegin()))
    return false;
  list.resize(list.size() - axes.size());
  return true;
}

/// The split without the axes that cut it last; nullopt: they do not, or its parts would have to
/// move one by one.
std::optional<DimSplit> without_suffix(DimSplit split, const Axes& axes) {
  if (!split.after.empty())
    return take_suffix(split.after, axes) ? std::optional(split) : std::nullopt;
  if (split.parts.size() > 1 && !axes.empty()) return std::nullopt;
  return take_suffix(split.parts.front().axes, axes) ? std::optional(split) : std::nullopt;
}

class MoveChecker {
 public:
  MoveChecker(const SpecMove& move, const DeviceMesh& mesh) : move_(move), mesh_(mesh) {
    for (const AxisId axis : move.group) {
      if (mesh.size(axis) > 1 && !mesh.axes[axis].stages) axes_.push_back(axis);
    }
  }

  Problem run() {
    switch (move_.kind) {
      case OpKind::kEnterTensor: return enter();
      case OpKind::kAllReduce: return all_reduce();
      case OpKind::kBroadcast: return unsplit(AxisState::kHeld, AxisState::kReplicated);
      case OpKind::kReduce: return unsplit(AxisState::kPartial, AxisState::kHeld);
      case OpKind::kAllGather: return gathered(move_.from, move_.to, AxisState::kReplicated);
      case OpKind::kReduceScatter: return gathered(move_.to, move_.from, AxisState::kPartial);
      case OpKind::kSlice: return slice();
      default: return exchange();
    }
  }

 private:
  std::string name(AxisId axis) const { return mesh_.axis_name(axis); }
  static bool is_whole(AxisState state) {
    return state == AxisState::kReplicated || state == AxisState::kEntered;
  }

  /// Axes that the move is not along keep their states.
  Problem other_states() const {
    for (AxisId axis = 0; axis < mesh_.num_axes(); ++axis) {
      if (std::count(axes_.begin(), axes_.end(), axis) > 0) continue;
      const bool alike = state_beside(move_.from, axis) == state_beside(move_.to, axis) &&
                         holder(move_.from, axis) == holder(move_.to, axis);
      if (!alike) return "changes its state along " + name(axis);
    }
    if (move_.to.maximum && !move_.from.maximum)
      return "makes candidates for a maximum of summands";
    return std::nullopt;
  }

  Problem states(AxisState from, AxisState to) const {
    for (const AxisId axis : axes_) {
      const AxisState was = state_beside(move_.from, axis), is = state_beside(move_.to, axis);
      if (was != from || dim_of(move_.from, axis))
        return "its operand is not " + std::string(1, letter(from)) + " along " + name(axis);
      const bool fits = to == AxisState::kReplicated ? is_whole(is) : is == to;
      if (!fits || dim_of(move_.to, axis))
        return "its result is not " + std::string(1, letter(to)) + " along " + name(axis);
    }
    return other_states();
  }

  Problem unsplit(AxisState from, AxisState to) const {
    if (!same_dims(move_.from, move_.to)) return "changes how its dims are split";
    return states(from, to);
  }

  /// The largest of equal values is that value: only a maximum may be taken twice.
  Problem all_reduce() const {
    const bool whole = std::all_of(axes_.begin(), axes_.end(), [&](AxisId axis) {
      return !dim_of(move_.from, axis) && is_whole(state_beside(move_.from, axis));
    });
    if (move_.maximum && whole && move_.from == move_.to) return std::nullopt;
    if (!axes_.empty() && move_.maximum != move_.from.maximum)
      return move_.maximum ? "takes the largest of summands" : "adds up candidates for a maximum";
    return unsplit(AxisState::kPartial, AxisState::kReplicated);
  }

  Problem enter() {
    if (!same_dims(move_.from, move_.to)) return "changes how its dims are split";
    for (const AxisId axis : axes_of(move_.to.entered)) {
      if (!has(move_.from.entered, axis)) axes_.push_back(axis);
    }
    if (axes_.empty()) return "enters no axis";
    return states(AxisState::kReplicated, AxisState::kEntered);
  }

  /// The axes by which the result is split and the operand is not.
  Problem slice() {
    for (std::size_t d = 0; d < move_.to.dims.size() && axes_.empty(); ++d) {
      for (const AxisId axis : move_.to.dims[d].parts.front().axes) {
        if (!dim_of(move_.from, axis)) axes_.push_back(axis);
      }
    }
    if (axes_.empty()) return "splits nothing";
    return gathered(move_.to, move_.from, AxisState::kReplicated);
  }

  /// `split`: the end that is split along the axes; the other is whole there, or has summands.
  Problem gathered(const TensorSpec& split, const TensorSpec& other, AxisState state) const {
    const bool flat = split.dims.size() != other.dims.size();
    const std::size_t dim = move_.dim < 0 ? 0 : static_cast<std::size_t>(move_.dim);
    if (dim >= split.dims.size()) return "is along no dim";
    if (flat && (split.dims.size() != 1 || move_.dim >= 0)) return "changes the number of dims";
    const auto left = without_suffix(split.dims[dim], axes_);
    if (!left) return "its group is not what cuts dim " + std::to_string(dim) + " last";
    for (std::size_t d = 0; d < other.dims.size(); ++d) {
      const DimSplit& before = d == dim ? *left : flat ? DimSplit{} : split.dims[d];
      if (!cut_alike(before, other.dims[d]))
        return "changes how dim " + std::to_string(d) + " is split";
    }
    for (const AxisId axis : axes_) {
      const AxisState is = state_beside(other, axis);
      const bool fits = state == AxisState::kReplicated ? is_whole(is) : is == state;
      if (!fits || dim_of(other, axis))
        return "is not " + std::string(1, letter(state)) + " along " + name(axis) +
               (&other == &move_.from ? " before" : " behind") + " it";
    }
    return other_states();
  }

  /// All-to-all: from the end of one dim's list to the end of another's.
  Problem exchange() const {
    if (move_.from.dims.size() != move_.to.dims.size()) return "changes the number of dims";
    int given = 0, taken = 0;
    for (std::size_t d = 0; d < move_.from.dims.size(); ++d) {
      const DimSplit &from = move_.from.dims[d], &to = move_.to.dims[d];
      if (cut_alike(from, to)) continue;
      const auto gave = without_suffix(from, axes_), took = without_suffix(to, axes_);
      if (gave && cut_alike(*gave, to)) {
        ++given;
      } else if (took && cut_alike(from, *took)) {
        ++taken;
      } else {
        return "changes how dim " + std::to_string(d) + " is split";
      }
    }
    if (given != 1 || taken != 1) return "moves no split from one dim to another";
    return other_states();
  }

  const SpecMove& move_;
  const DeviceMesh& mesh_;
  Axes axes_;
};

}  // namespace

bool is_spec_move(OpKind kind) {
  return is_collective(kind) || kind == OpKind::kEnterTensor || kind == OpKind::kSlice;
}

std::optional<std::string> find_move_problem(const SpecMove& move, const DeviceMesh& mesh) {
  return MoveChecker(move, mesh).run();
}

}  // namespace trainyard
