// Moves of packed dims in the search for a redistribution: an axis leaves the parts that the tensor
// has, or comes to those that are wanted.
#include <algorithm>

#include "engine/sharding/search_edges.h"

namespace trainyard {

namespace {

bool is_last(const DimSplit& dim, AxisId axis) {
  if (!dim.after.empty()) return dim.after.back() == axis;
  return std::all_of(dim.parts.begin(), dim.parts.end(), [&](const DimPart& part) {
    return !has(set_of(part.axes), axis) || part.axes.back() == axis;
  });
}

/// Each list of `shorter` is the beginning of that of `longer`.
bool begins(const DimSplit& shorter, const DimSplit& longer) {
  const auto fits = [](const Axes& a, const Axes& b) {
    return a.size() <= b.size() && std::equal(a.begin(), a.end(), b.begin());
  };
  for (std::size_t p = 0; p < shorter.parts.size(); ++p) {
    if (!fits(shorter.parts[p].axes, longer.parts[p].axes)) return false;
    // Chunks behind the parts are cut when the parts are.
    if (!shorter.after.empty() && shorter.parts[p].axes != longer.parts[p].axes) return false;
  }
  return fits(shorter.after, longer.after);
}

AxisState beside(std::uint8_t code) { return state_of_code(beside_code(code)); }

}  // namespace

/// `state` with the axes alone that are moved or split one of `dims`.
SearchState SearchEdges::only_touched(const SearchState& state, const Move& move,
                                      std::uint32_t dims) const {
  SearchState out = state;
  const AxisSet moved = set_of(move.axes);
  for (const AxisId axis : mesh_.axis_ids()) {
    const std::uint8_t code = state.axes[axis];
    const bool splits = is_split_code(code) && (dims >> dim_of_code(code) & 1U) != 0;
    if (!has(moved, axis) && !splits) out.axes[axis] = kCodeR;
  }
  return out;
}

/// Dims share no axis: what the busiest rank receives is a product, of the dims that the move
/// touches, counted by boxes, and of those that it leaves alone.
void SearchEdges::add_packed(const SearchState& next, const Move& move) {
  const SearchState normal = codec_.normal(next);
  std::uint32_t dims = 0;
  for (const AxisId axis : move.axes) {
    for (const std::uint8_t code : {state_.axes[axis], normal.axes[axis]}) {
      if (is_split_code(code)) dims |= std::uint32_t{1} << dim_of_code(code);
    }
  }
  Extents touched = extents_;
  double others = 1;
  for (std::size_t d = 0; d < extents_.size(); ++d) {
    if ((dims >> d & 1U) != 0) continue;
    touched[d] = 1;
    others *= most_[d];
  }
  const auto [at, made] = packed_moves_.try_emplace(
      {only_touched(state_, move, dims), only_touched(normal, move, dims)}, Received{});
  const MoveKind forward = forward_kind(move);
  const MoveKind backward = backward_kind(move);
  if (made) {
    const TensorSpec before = codec_.decode(at->first.first);
    const TensorSpec after = codec_.decode(at->first.second);
    at->second = {received_elements(forward, move.axes, before, after, touched, mesh_),
                  received_elements(backward, move.axes, after, before, touched, mesh_)};
  }
  const AxisLink link = link_of(costs_, move.axes);
  const std::int64_t ranks = group_size(mesh_, move.axes);
  // Colossal-AI, which counts local bytes, knows no packed dims.
  const double cost =
      collective_cost(forward, at->second.forward * others, 0, ranks, link, costs_) +
      backward_cost(move, at->second.backward * others, 0, 0, ranks, link, costs_);
  edges_.push_back({normal, move, cost});
}

/// Lets `move.axes`, one axis, split the wanted parts of `dim`; `without`: the node, where it
/// splits nothing.
void SearchEdges::gain(int dim, const SearchState& without, Move move) {
  const AxisId axis = move.axes.front();
  const DimSplit& wanted = codec_.pattern(dim, 1);
  if (!has(axes_in(wanted), axis) || codec_.axes_in(without, dim, 0) != 0) return;
  const auto present = static_cast<AxisSet>(codec_.axes_in(without, dim, 1) | bit(axis));
  const DimSplit longer = codec_.restricted(dim, 1, present);
  if (!begins(longer, wanted) || !is_last(longer, axis)) return;
  const bool whole = has(axes_of_all_parts(wanted), axis);
  if (!whole && (move.from == AxisState::kSplit || move.from == AxisState::kHeld)) return;
  SearchState next = without;
  std::uint8_t& code = next.axes[axis];
  code = split_code(dim, 4 + (whole ? int{kCodeR} : int{code}));
  add_packed(next, move);
}

void SearchEdges::shed(int dim, int which, AxisSet present, AxisId axis) {
  if (!is_last(codec_.restricted(dim, which, present), axis)) return;
  const bool whole = has(axes_of_all_parts(codec_.pattern(dim, which)), axis);
  for (const AxisState to :
       {AxisState::kReplicated, AxisState::kEntered, AxisState::kPartial, AxisState::kHeld}) {
    const bool held = to == AxisState::kHeld;
    if (whole ? !may_become(to, axis) : to != beside(state_.axes[axis])) continue;
    Move move{AxisState::kSplit,
              to,
              {axis},
              static_cast<std::int8_t>(dim),
              -1,
              held ? *holder(to_, axis) : 0};
    SearchState next = state_;
    next.axes[axis] = to == AxisState::kEntered   ? kCodeE
                      : to == AxisState::kPartial ? kCodeP
                      : held                      ? kCodeToHolder
                                                  : kCodeR;
    add_packed(next, move);
  }
  for (int to_dim = 0; whole && to_dim < static_cast<int>(extents_.size()); ++to_dim) {
    if (to_dim == dim) continue;
    Move move{AxisState::kSplit,
              AxisState::kSplit,
              {axis},
              static_cast<std::int8_t>(dim),
              static_cast<std::int8_t>(to_dim),
              0};
    SearchState next = state_;
    next.axes[axis] = kCodeR;
    if (codec_.packed(to_dim)) {
      if (!codec_.frozen(to_dim)) gain(to_dim, next, move);
      continue;
    }
    next.axes[axis] = split_code(to_dim, static_cast<int>(lists_[to_dim].size()));
    add_packed(next, move);
  }
}

/// All at once where the same axes cut both, by sends.
void SearchEdges::permute_packed(int dim) {
  const DimSplit& had = codec_.pattern(dim, 0);
  const DimSplit& wanted = codec_.pattern(dim, 1);
  const AxisSet axes = axes_in(had);
  // An element that is split in one and whole in the other is no matter of sends alone.
  if (axes == 0 || codec_.axes_in(state_, dim, 0) != axes || axes_in(wanted) != axes ||
      axes_of_all_parts(had) != axes || axes_of_all_parts(wanted) != axes)
    return;
  SearchState next = state_;
  for (const AxisId axis : axes_of(axes)) {
    std::uint8_t& code = next.axes[axis];
    code = split_code(dim, 4 + beside_code(code));
  }
  const auto d = static_cast<std::int8_t>(dim);
  add_packed(next, {AxisState::kSplit, AxisState::kSplit, axes_of(axes), d, d, 0});
}

/// Lets all axes of the wanted parts split them at once, from one state.
void SearchEdges::gain_all(int dim) {
  const DimSplit& wanted = codec_.pattern(dim, 1);
  const Axes axes = axes_of(axes_in(wanted));
  if (axes.size() < 2) return;
  const std::uint8_t from = state_.axes[axes.front()];
  if (from != kCodeR && from != kCodeE && from != kCodeP) return;
  if (codec_.axes_in(state_, dim, 0) != 0) return;
  SearchState next = state_;
  for (const AxisId axis : axes) {
    if (state_.axes[axis] != from) return;
    const bool whole = has(axes_of_all_parts(wanted), axis);
    next.axes[axis] = split_code(dim, 4 + (whole ? int{kCodeR} : int{from}));
  }
  add_packed(next,
             {state_of_code(from), AxisState::kSplit, axes, -1, static_cast<std::int8_t>(dim), 0});
}

/// Takes all axes off the parts at once, into one state.
void SearchEdges::shed_all(int dim, int which) {
  const DimSplit& had = codec_.pattern(dim, which);
  const Axes axes = axes_of(axes_in(had));
  if (axes.size() < 2 || codec_.axes_in(state_, dim, which) != axes_in(had)) return;
  for (const std::uint8_t to : {kCodeR, kCodeE, kCodeP}) {
    SearchState next = state_;
    bool one_state = true;
    for (const AxisId axis : axes) {
      std::uint8_t& code = next.axes[axis];
      const bool whole = has(axes_of_all_parts(had), axis);
      one_state =
          one_state && (whole ? may_become(state_of_code(to), axis) : beside_code(code) == to);
      code = to;
    }
    if (one_state)
      add_packed(
          next, {AxisState::kSplit, state_of_code(to), axes, static_cast<std::int8_t>(dim), -1, 0});
  }
}

/// The state beside an axis that splits some parts alone.
void SearchEdges::change_beside(int dim, int which, AxisId axis) {
  if (has(axes_of_all_parts(codec_.pattern(dim, which)), axis)) return;
  const std::uint8_t code = state_.axes[axis];
  for (const std::uint8_t to : {kCodeR, kCodeE, kCodeP}) {
    if (to == beside_code(code) || !may_become(state_of_code(to), axis)) continue;
    SearchState next = state_;
    next.axes[axis] = split_code(dim, which * 4 + to);
    add_packed(next, {beside(code), state_of_code(to), {axis}, -1, -1, 0});
  }
}

void SearchEdges::change_packed(int dim) {
  for (const int which : {0, 1}) {
    const AxisSet present = codec_.axes_in(state_, dim, which);
    for (const AxisId axis : axes_of(present)) {
      change_beside(dim, which, axis);
      if (!codec_.frozen(dim)) shed(dim, which, present, axis);
    }
    if (!codec_.frozen(dim)) shed_all(dim, which);
  }
  if (codec_.frozen(dim)) return;
  gain_all(dim);
  permute_packed(dim);
}

}  // namespace trainyard
