#include "engine/sharding/moved_axes.h"

#include <algorithm>

namespace trainyard {

namespace {

bool is_whole(AxisState state) {
  return state == AxisState::kReplicated || state == AxisState::kEntered;
}

/// Those of `axes` in the order in which they cut the dim.
Axes in_order(const DimSplit& dim, AxisSet axes) {
  Axes out;
  const auto add = [&](const Axes& list) {
    for (const AxisId axis : list) {
      if (has(axes, axis) && std::count(out.begin(), out.end(), axis) == 0) out.push_back(axis);
    }
  };
  // The part that most axes cut says how they follow each other.
  const auto longest = std::max_element(
      dim.parts.begin(), dim.parts.end(),
      [](const DimPart& a, const DimPart& b) { return a.axes.size() < b.axes.size(); });
  add(longest->axes);
  for (const DimPart& part : dim.parts) add(part.axes);
  add(dim.after);
  return out;
}

/// What becomes of one axis, without its dims' other axes.
std::optional<Move> change_of(const TensorSpec& from, const TensorSpec& to, AxisId axis) {
  const auto had = dim_of(from, axis), has_now = dim_of(to, axis);
  const AxisState was = state_beside(from, axis), is = state_beside(to, axis);
  Move move{was, is, {}, -1, -1, holder(to, axis).value_or(0)};
  if (had != has_now) {
    if (had) move.from = AxisState::kSplit, move.from_dim = static_cast<std::int8_t>(*had);
    if (has_now) move.to = AxisState::kSplit, move.to_dim = static_cast<std::int8_t>(*has_now);
    return move;
  }
  if (was == is && move.from != AxisState::kHeld) return std::nullopt;
  if (was == is && holder(from, axis) == holder(to, axis)) return std::nullopt;
  return is_whole(was) && is_whole(is) ? std::nullopt : std::optional(move);
}

/// Axes between R and E, where nothing else differs.
std::optional<Move> entering(const TensorSpec& from, const TensorSpec& to) {
  const auto enter = static_cast<AxisSet>(to.entered & ~from.entered);
  const auto leave = static_cast<AxisSet>(from.entered & ~to.entered);
  if ((enter == 0) == (leave == 0)) return std::nullopt;
  Move move{AxisState::kReplicated, AxisState::kEntered, axes_of(enter), -1, -1, 0};
  if (leave != 0)
    move.from = AxisState::kEntered, move.to = AxisState::kReplicated, move.axes = axes_of(leave);
  return move;
}

/// One dim's axes in another order, or backwards, or the same with other pieces: those behind what
/// both lists begin with.
std::optional<Move> permutation(const TensorSpec& from, const TensorSpec& to) {
  std::optional<std::size_t> dim;
  for (std::size_t d = 0; d < from.dims.size(); ++d) {
    if (from.dims[d] == to.dims[d]) continue;
    if (dim || axes_in(from.dims[d]) != axes_in(to.dims[d])) return std::nullopt;
    dim = d;
  }
  if (!dim || axes_in(from.dims[*dim]) == 0) return std::nullopt;
  const DimSplit &was = from.dims[*dim], &is = to.dims[*dim];
  Axes axes = in_order(was, axes_in(was));
  // Pieces of another size begin elsewhere, whatever cuts first.
  const DimPart &first = was.parts.front(), &other = is.parts.front();
  if (!is_packed(was) && !is_packed(is) && first.reversed == other.reversed &&
      first.count == other.count && first.unit == other.unit) {
    const Axes& list = is.parts.front().axes;
    axes.erase(axes.begin(), std::mismatch(axes.begin(), axes.end(), list.begin()).first);
  }
  const auto d = static_cast<std::int8_t>(*dim);
  return Move{AxisState::kSplit, AxisState::kSplit, axes, d, d, 0};
}

}  // namespace

std::optional<Move> move_between(const TensorSpec& from, const TensorSpec& to) {
  if (from.dims.size() != to.dims.size()) return std::nullopt;
  std::optional<Move> move;
  AxisSet changed = 0;
  for (AxisId axis = 0; axis < kMostAxes; ++axis) {
    auto change = change_of(from, to, axis);
    if (!change) continue;
    changed = static_cast<AxisSet>(changed | bit(axis));
    // Where the first enters, so do the others, unless no gradient flows.
    if (move && is_whole(move->from) && is_whole(change->from)) change->from = move->from;
    if (move && is_whole(move->to) && is_whole(change->to)) change->to = move->to;
    if (move && *move != *change) return std::nullopt;
    move = change;
  }
  if (!move) {
    if (auto permuted = permutation(from, to)) return permuted;
    return entering(from, to);
  }
  move->axes = move->from_dim >= 0 ? in_order(from.dims.begin()[move->from_dim], changed)
               : move->to_dim >= 0 ? in_order(to.dims.begin()[move->to_dim], changed)
                                   : axes_of(changed);
  return move;
}

Axes moved_axes(const TensorSpec& from, const TensorSpec& to) {
  const auto move = move_between(from, to);
  return move ? move->axes : Axes{};
}

}  // namespace trainyard
