#include "engine/exec/channels/channel_ends.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/program/rank_places.h"

namespace trainyard {

// One ascending sweep over the ranks: their coordinates count up like an odometer whose fastest
// digit is the axis with the smallest stride.
RankCoordinates::RankCoordinates(const Program& program)
    : num_ranks_(program.mesh.num_ranks()),
      num_axes_(position(program.mesh.num_axes())),
      stages_(stage_axis(program.mesh)) {
  of_axes_.reserve(position(num_ranks_) * num_axes_);
  if (unlike_axis(program.mesh) != kNoAxis) {
    for (std::int64_t rank = 0; rank < num_ranks_; ++rank) {
      const Coordinate at = coordinate_of(program, rank);
      of_axes_.insert(of_axes_.end(), at.begin(), at.end());
      lists_.push_back(static_cast<std::int32_t>(list_at(program, at)));
    }
    return;
  }
  Axes fastest_first;
  for (AxisId axis = 0; axis < program.mesh.num_axes(); ++axis) fastest_first.push_back(axis);
  std::sort(fastest_first.begin(), fastest_first.end(), [&](AxisId a, AxisId b) {
    return program.placement.stride[a] < program.placement.stride[b];
  });
  Coordinate now(num_axes_, 0);
  for (std::int64_t rank = 0; rank < num_ranks_; ++rank) {
    of_axes_.insert(of_axes_.end(), now.begin(), now.end());
    for (const AxisId axis : fastest_first) {
      if (++now[axis] < program.mesh.size(axis)) break;
      now[axis] = 0;
    }
  }
}

GroupIndex::GroupIndex(const Program& program, const Group& group)
    : group_(group),
      stages_(stage_axis(program.mesh)) {
  const AxisSet inside = set_of(group.axes);
  for (AxisId axis = 0; axis < program.mesh.num_axes(); ++axis) {
    if (has(inside, axis)) continue;
    stride_[position(axis)] = count_;
    count_ *= program.mesh.size(axis);
  }
}

bool GroupIndex::has_member(Coordinates at) const {
  const auto& members = group_.members;
  return members.empty() ||
         std::find(members.begin(), members.end(), at[position(stages_)]) != members.end();
}

std::int64_t GroupIndex::of(Coordinates at) const {
  std::int64_t index = 0;
  for (std::size_t axis = 0; axis < at.size(); ++axis) index += at[axis] * stride_[axis];
  return index;
}

std::int64_t receiver(const Program& program, const Lane& lane, Coordinates at, std::int64_t rank) {
  if (lane.is_copy()) return rank;
  const std::int32_t here = at[position(lane.axis)];
  const std::int32_t there = (here + lane.offset) % program.mesh.size(lane.axis);
  if (lane.pairs.empty()) return rank + (there - here) * program.placement.stride[lane.axis];
  const auto peer =
      peer_at(program, {lane.axis, lane.offset, lane.pairs}, Coordinate(at.begin(), at.end()));
  check(peer.has_value(), "who sends has a peer");
  return rank_at(program, *peer);
}

}  // namespace trainyard
