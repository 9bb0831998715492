// What the rest of a way costs at least, in the search for a redistribution.
#include <algorithm>

#include "engine/sharding/search_edges.h"

namespace trainyard {

/// Whether the rank is the holder along each axis that has one.
bool SearchEdges::holds(const SearchState& state, const Coordinate& coordinate) const {
  for (const AxisId axis : mesh_.axis_ids()) {
    const std::uint8_t code = state.axes[axis];
    if (code != kCodeFromHolder && code != kCodeToHolder) continue;
    if (holder(code == kCodeFromHolder ? from_ : to_, axis) != coordinate.begin()[axis])
      return false;
  }
  return true;
}

SearchEdges::HeldPart SearchEdges::plain_part(int dim, std::size_t corner, bool backward) const {
  const IndexRange held = cut_pieces(extents_[dim], lists_[dim], mesh_, corners_[corner]);
  const IndexRange& wanted = wanted_[corner][static_cast<std::size_t>(dim)];
  const std::int64_t both = std::min(held.end, wanted.end) - std::max(held.begin, wanted.begin);
  return {static_cast<double>(backward ? held.size() : wanted.size()),
          static_cast<double>(std::max<std::int64_t>(0, both))};
}

/// Where an axis splits some parts and the others are sums over it, only the split parts count: of
/// a sum a rank has one summand at the way's beginning, and may have any at its end.
SearchEdges::HeldPart SearchEdges::packed_part(int dim, const SearchState& state,
                                               std::size_t corner, bool backward) {
  const int which = codec_.axes_in(state, dim, 0) != 0 ? 0 : 1;
  const AxisSet axes = codec_.axes_in(state, dim, which);
  AxisSet summed = 0;
  for (const AxisId axis : axes_of(axes)) {
    if (beside_code(state.axes[axis]) == (backward ? kCodeE : kCodeP))
      summed = static_cast<AxisSet>(summed | bit(axis));
  }
  const auto [at, made] =
      packed_parts_.try_emplace({dim, which, axes, summed, corner, backward}, HeldPart{});
  if (!made) return at->second;
  const DimSplit& pattern = to_.dims.begin()[dim];
  const auto to_summed =
      static_cast<AxisSet>((backward ? to_.entered : to_.partial) & axes_in(pattern));
  const IndexRanges held = dim_ranges(axes == 0 ? DimSplit{} : codec_.restricted(dim, which, axes),
                                      extents_[dim], mesh_, corners_[corner], summed);
  const IndexRanges wanted = dim_ranges(pattern, extents_[dim], mesh_, corners_[corner], to_summed);
  std::int64_t elements = 0;
  for (const IndexRange& range : backward ? held : wanted) elements += range.size();
  return at->second = {static_cast<double>(elements), static_cast<double>(overlap(held, wanted))};
}

/// Elements that the rank holds at the end of the way and not at its beginning; of a sum that it
/// had one summand of, all.
double SearchEdges::lacking(const SearchState& state, std::size_t corner, bool backward) {
  const Coordinate& coordinate = corners_[corner];
  bool summed = false;
  for (const AxisId axis : mesh_.axis_ids()) {
    const std::uint8_t code = state.axes[axis];
    const AxisState there = is_split_code(code) ? AxisState::kSplit : state_of_code(code);
    const bool to_summands = has(backward ? to_.entered : to_.partial, axis) && !dim_of(to_, axis);
    const bool summands = there == (backward ? AxisState::kEntered : AxisState::kPartial);
    // The value's summands are the forward's beginning; the gradient's are `to`'s, its beginning.
    if (backward ? summands : to_summands) return 0;
    summed = summed || (mesh_.size(axis) > 1 && (backward ? to_summands : summands));
  }
  const bool held_here = holds(state, coordinate);
  bool wanted_here = true;
  for (const Held& held : to_.held)
    wanted_here = wanted_here && coordinate.begin()[held.axis] == held.coordinate;
  if (!(backward ? held_here : wanted_here)) return 0;
  double has = 1, common = held_here && wanted_here ? 1 : 0;
  for (int d = 0; d < static_cast<int>(extents_.size()); ++d) {
    const HeldPart part = codec_.packed(d) ? packed_part(d, state, corner, backward)
                                           : plain_part(d, corner, backward);
    has *= part.has;
    common *= part.common;
  }
  return summed ? has : has - common;
}

double SearchEdges::least_cost(const SearchState& state) {
  if (own_moves_) return 0;
  read_lists(state);
  double forward = 0, backward = 0;
  for (std::size_t corner = 0; corner < corners_.size(); ++corner) {
    forward = std::max(forward, lacking(state, corner, false));
    if (costs_.gradient) backward = std::max(backward, lacking(state, corner, true));
  }
  const double bytes = (forward + backward) * costs_.element_bytes;
  return fastest_.beta * bytes + fastest_.alpha * ((forward > 0 ? 1 : 0) + (backward > 0 ? 1 : 0));
}

}  // namespace trainyard
