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

/// Elements that the rank holds at the end of the way and not at its beginning; of a sum that it
/// had one summand of, all.
double SearchEdges::lacking(const SearchState& state, const std::vector<IndexRange>& wanted,
                            const Coordinate& coordinate, bool backward) const {
  bool summed = false;
  for (const AxisId axis : mesh_.axis_ids()) {
    const std::uint8_t code = state.axes[axis];
    const AxisState there = is_split_code(code) ? AxisState::kSplit : state_of_code(code);
    const bool to_summands = has(backward ? to_.entered : to_.partial, axis);
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
  for (std::size_t d = 0; d < extents_.size(); ++d) {
    const IndexRange held = cut_pieces(extents_[d], lists_[d], mesh_, coordinate);
    const std::int64_t both =
        std::min(held.end, wanted[d].end) - std::max(held.begin, wanted[d].begin);
    common *= static_cast<double>(std::max<std::int64_t>(0, both));
    has *= static_cast<double>(backward ? held.size() : wanted[d].size());
  }
  return summed ? has : has - common;
}

double SearchEdges::least_cost(const SearchState& state) {
  if (!bounded_) return 0;
  read_lists(state);
  double forward = 0, backward = 0;
  for (std::size_t corner = 0; corner < corners_.size(); ++corner) {
    forward = std::max(forward, lacking(state, wanted_[corner], corners_[corner], false));
    if (costs_.gradient)
      backward = std::max(backward, lacking(state, wanted_[corner], corners_[corner], true));
  }
  const double bytes = (forward + backward) * costs_.element_bytes;
  return fastest_.beta * bytes + fastest_.alpha * ((forward > 0 ? 1 : 0) + (backward > 0 ? 1 : 0));
}

}  // namespace trainyard
