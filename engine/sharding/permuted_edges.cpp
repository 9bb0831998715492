// Moves of a plain dim's list into another order, in the search for a redistribution.
#include <algorithm>

#include "engine/sharding/search_edges.h"

namespace trainyard {

/// Elements, of the dim, that the busiest rank receives where its list takes another order.
double SearchEdges::permuted_part(int dim, const Axes& order) {
  const std::int64_t ranks = group_size(mesh_, order);
  const std::int64_t piece = extents_[dim] / ranks;
  if (piece * ranks == extents_[dim]) return static_cast<double>(piece);  // some rank has another
  const auto [at, made] = permuted_.try_emplace({dim, lists_[dim], order}, 0);
  if (!made) return at->second;
  Coordinate coordinate = uniform_coordinate(mesh_, 0);
  for (std::int64_t member = 0; member < ranks; ++member) {
    std::int64_t rest = member;
    for (const AxisId axis : order) {
      coordinate.begin()[axis] = static_cast<std::int32_t>(rest % mesh_.size(axis));
      rest /= mesh_.size(axis);
    }
    const IndexRange had = cut_pieces(extents_[dim], lists_[dim], mesh_, coordinate);
    const IndexRange gets = cut_pieces(extents_[dim], order, mesh_, coordinate);
    const std::int64_t both = std::min(had.end, gets.end) - std::max(had.begin, gets.begin);
    at->second =
        std::max(at->second, static_cast<double>(gets.size() - std::max<std::int64_t>(0, both)));
  }
  return at->second;
}

void SearchEdges::reorder_lists() {
  for (int dim = 0; dim < static_cast<int>(extents_.size()); ++dim) {
    if (codec_.packed(dim) || lists_[dim].size() < 2) continue;
    const Axes list = lists_[dim];
    Axes order = list;
    std::sort(order.begin(), order.end());
    do {
      if (order == list) continue;
      Move move{AxisState::kSplit,
                AxisState::kSplit,
                order,
                static_cast<std::int8_t>(dim),
                static_cast<std::int8_t>(dim),
                0};
      SearchState next = state_;
      for (std::size_t place = 0; place < order.size(); ++place)
        next.axes[order[place]] = split_code(dim, static_cast<int>(place));
      const double others = local_ / most_[dim];
      const double forward = permuted_part(dim, order) * others;
      lists_[dim] = order;
      const double backward = permuted_part(dim, list) * others;
      lists_[dim] = list;
      add_plain(next, move, forward, backward, local_);
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

}  // namespace trainyard
