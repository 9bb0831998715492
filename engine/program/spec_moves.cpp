#include "engine/program/spec_moves.h"

#include <algorithm>

#include "engine/program/dim_cuts.h"
#include "engine/sharding/moved_axes.h"

namespace trainyard {

namespace {

using Problem = std::optional<std::string>;

bool same_dims(const TensorSpec& a, const TensorSpec& b, const DeviceMesh& mesh) {
  return std::equal(
      a.dims.begin(), a.dims.end(), b.dims.begin(), b.dims.end(),
      [&](const DimSplit& one, const DimSplit& other) { return cut_alike(one, other, mesh); });
}

/// Takes the axes off the end of a list, in that order.
bool take_suffix(Axes& list, const Axes& axes) {
  if (list.size() < axes.size() || !std::equal(axes.rbegin(), axes.rend(), list.rbegin()))
    return false;
  list.resize(list.size() - axes.size());
  return true;
}

/// The split without the axes that cut it last, or those of its parts that they cut; nullopt: they
/// do not.
std::optional<DimSplit> without_suffix(DimSplit split, const Axes& axes) {
  if (!split.after.empty())
    return take_suffix(split.after, axes) ? std::optional(split) : std::nullopt;
  bool took = axes.empty();
  for (DimPart& part : split.parts) {
    if ((set_of(part.axes) & set_of(axes)) == 0) continue;
    if (!take_suffix(part.axes, axes)) return std::nullopt;
    took = true;
  }
  return took ? std::optional(split) : std::nullopt;
}

/// The same, in whichever order they stand.
std::optional<DimSplit> without_last(const DimSplit& split, AxisSet axes) {
  const Axes& list = split.after.empty() ? split.parts.front().axes : split.after;
  const auto count = static_cast<std::size_t>(axes_of(axes).size());
  if (list.size() < count) return std::nullopt;
  Axes last(list.end() - static_cast<std::ptrdiff_t>(count), list.end());
  return set_of(last) == axes ? without_suffix(split, last) : std::nullopt;
}

class MoveChecker {
 public:
  MoveChecker(const SpecMove& move, const DeviceMesh& mesh) : move_(move), mesh_(mesh) {
    for (const AxisId axis : move.group) {
      if (mesh.axes[axis].stages) continue;
      if (mesh.size(axis) > 1 || changes(axis)) axes_.push_back(axis);
    }
  }

  Problem run() {
    const auto move = move_between(move_.from, move_.to);
    if (!is_collective(move_.kind)) {
      const bool flat = move_.from.dims.size() != move_.to.dims.size();
      if (!move && !flat) return "moves nothing";
      axes_ = flat ? cut_of_flat() : move->axes;
    }
    if (auto problem = problem_of_kind()) return problem;
    // The order of a group matters where it says who has which piece.
    const bool ordered = move && (move->from_dim >= 0 || move->to_dim >= 0);
    if (move && (ordered ? move->axes != axes_ : set_of(move->axes) != set_of(axes_)))
      return "is over " + names(axes_) + ", where " + to_text(*move, mesh_) + " is needed";
    return std::nullopt;
  }

 private:
  Problem problem_of_kind() const {
    switch (move_.kind) {
      case OpKind::kEnterTensor: return enter();
      case OpKind::kPad: return gathered(move_.from, move_.to, AxisState::kPartial);
      case OpKind::kKeepOnOne: return keep();
      case OpKind::kAllReduce: return all_reduce();
      case OpKind::kBroadcast: return unsplit(AxisState::kHeld, AxisState::kReplicated);
      case OpKind::kReduce: return unsplit(AxisState::kPartial, AxisState::kHeld);
      case OpKind::kAllGather: return gathered(move_.from, move_.to, AxisState::kReplicated);
      case OpKind::kReduceScatter: return gathered(move_.to, move_.from, AxisState::kPartial);
      case OpKind::kSlice: return gathered(move_.to, move_.from, AxisState::kReplicated);
      case OpKind::kRingShift: return shifted();
      default: return exchange();
    }
  }

  std::string name(AxisId axis) const { return mesh_.axis_name(axis); }
  std::string names(const Axes& axes) const {
    std::string text;
    for (const AxisId axis : axes) text += (text.empty() ? "" : " ") + name(axis);
    return text.empty() ? "no axis" : text;
  }
  /// Along an axis of one rank, which others have more of: nothing moves, but states change.
  bool changes(AxisId axis) const {
    return state_beside(move_.from, axis) != state_beside(move_.to, axis) ||
           dim_of(move_.from, axis) != dim_of(move_.to, axis);
  }
  static bool is_whole(AxisState state) {
    return state == AxisState::kReplicated || state == AxisState::kEntered;
  }

  /// Axes that the move is not along keep their states.
  Problem other_states() const {
    for (AxisId axis = 0; axis < mesh_.num_axes(); ++axis) {
      if (std::count(axes_.begin(), axes_.end(), axis) > 0) continue;
      const AxisState was = state_beside(move_.from, axis), is = state_beside(move_.to, axis);
      const bool alike = was == is && holder(move_.from, axis) == holder(move_.to, axis);
      // E and R are one of gradients.
      if (!alike && !(is_whole(was) && is_whole(is)))
        return "changes its state along " + name(axis);
    }
    if (move_.to.maximum && !move_.from.maximum)
      return "makes candidates for a maximum of summands";
    return std::nullopt;
  }

  /// R stands for E too: what the backward makes of it, its own instruction's specs say.
  static bool fits(AxisState is, AxisState wanted) {
    return wanted == AxisState::kReplicated ? is_whole(is) : is == wanted;
  }

  /// States of elements that the axes do not split.
  Problem states(AxisState from, AxisState to) const {
    for (const AxisId axis : axes_) {
      if (!fits(state_beside(move_.from, axis), from) || splits_everything(move_.from, axis))
        return "its operand is not " + std::string(1, letter(from)) + " along " + name(axis);
      if (!fits(state_beside(move_.to, axis), to) || splits_everything(move_.to, axis))
        return "its result is not " + std::string(1, letter(to)) + " along " + name(axis);
    }
    return other_states();
  }

  /// Each rank's piece of a dim goes to another rank of those that the dim is split over.
  Problem shifted() const {
    if (!same_dims(move_.from, move_.to, mesh_)) return "changes how its dims are split";
    const auto& dims = move_.from.dims;
    if (move_.dim < 0 || move_.dim >= static_cast<int>(dims.size())) return "shifts no dim";
    const DimSplit& dim = dims.begin()[move_.dim];
    for (const DimPart& part : dim.parts) {
      if (part.axes != axes_ || !dim.after.empty())
        return "is over " + names(axes_) + ", which do not split its dim alone";
    }
    return other_states();
  }

  Problem unsplit(AxisState from, AxisState to) const {
    if (!same_dims(move_.from, move_.to, mesh_)) return "changes how its dims are split";
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

  /// R -> E, or back.
  Problem enter() const {
    if (!same_dims(move_.from, move_.to, mesh_)) return "changes how its dims are split";
    return states(AxisState::kReplicated, AxisState::kReplicated);
  }

  /// The axes that cut a tensor viewed as one dim, and do not cut the tensor.
  Axes cut_of_flat() const {
    Axes axes;
    if (move_.to.dims.size() != 1) return axes;
    for (const AxisId axis : move_.to.dims.front().parts.front().axes) {
      if (!dim_of(move_.from, axis)) axes.push_back(axis);
    }
    return axes;
  }

  Problem keep() const {
    if (!same_dims(move_.from, move_.to, mesh_)) return "changes how its dims are split";
    return states(AxisState::kReplicated, AxisState::kPartial);
  }

  /// Which axes cut a tensor that is viewed as one dim: those of its dims, in their order.
  static Axes axes_of_dims(const TensorSpec& spec) {
    Axes axes;
    for (const DimSplit& dim : spec.dims) {
      const Axes& cut = dim.parts.front().axes;
      axes.insert(axes.end(), cut.begin(), cut.end());
    }
    return axes;
  }

  /// `split`: the end that is split along the axes; the other is whole there, or has summands.
  Problem gathered(const TensorSpec& split, const TensorSpec& other, AxisState state) const {
    const bool flat = split.dims.size() != other.dims.size();
    const std::size_t dim = move_.dim < 0 ? 0 : static_cast<std::size_t>(move_.dim);
    if (dim >= split.dims.size()) return "is along no dim";
    if (flat && (split.dims.size() != 1 || move_.dim >= 0)) return "changes the number of dims";
    const auto left = without_suffix(split.dims[dim], axes_);
    if (!left) return "its group is not what cuts dim " + std::to_string(dim) + " last";
    if (flat && left->parts.front().axes != axes_of_dims(other))
      return "is viewed as one dim that other axes split";
    for (std::size_t d = 0; d < other.dims.size() && !flat; ++d) {
      if (!cut_alike(d == dim ? *left : split.dims[d], other.dims[d], mesh_))
        return "changes how dim " + std::to_string(d) + " is split";
    }
    for (const AxisId axis : axes_) {
      if (!fits(state_beside(other, axis), state) || splits_everything(other, axis))
        return "is not " + std::string(1, letter(state)) + " along " + name(axis) +
               (&other == &move_.from ? " before" : " behind") + " it";
    }
    return other_states();
  }

  /// All-to-all: from the end of one dim's list to the end of another's, or one dim's list into
  /// another order.
  Problem exchange() const {
    if (move_.from.dims.size() != move_.to.dims.size()) return "changes the number of dims";
    int given = 0, taken = 0, ordered = 0;
    for (std::size_t d = 0; d < move_.from.dims.size(); ++d) {
      const DimSplit &from = move_.from.dims[d], &to = move_.to.dims[d];
      if (cut_alike(from, to, mesh_)) continue;
      if (axes_in(from) == axes_in(to) && (axes_in(from) & set_of(axes_)) == set_of(axes_)) {
        ++ordered;
        continue;
      }
      const auto gave = without_suffix(from, axes_), took = without_last(to, set_of(axes_));
      if (gave && cut_alike(*gave, to, mesh_)) {
        ++given;
      } else if (took && cut_alike(from, *took, mesh_)) {
        ++taken;
      } else {
        return "changes how dim " + std::to_string(d) + " is split";
      }
    }
    const bool permutes = given == 0 && taken == 0 && ordered == 1;
    if (!permutes && (given != 1 || taken != 1 || ordered > 0))
      return "moves no split from one dim to another";
    return other_states();
  }

  const SpecMove& move_;
  const DeviceMesh& mesh_;
  Axes axes_;
};

}  // namespace

bool is_spec_move(OpKind kind) {
  return is_collective(kind) || kind == OpKind::kEnterTensor || kind == OpKind::kSlice ||
         kind == OpKind::kPad || kind == OpKind::kKeepOnOne;
}

std::optional<std::string> find_move_problem(const SpecMove& move, const DeviceMesh& mesh) {
  return MoveChecker(move, mesh).run();
}

}  // namespace trainyard
