#include "engine/exec/channels/channel_ends.h"

#include <algorithm>

namespace trainyard {

// One ascending sweep over the ranks: their coordinates count up like an odometer whose fastest
// digit is the axis with the smallest stride.
Indexed<std::int64_t, Coordinates> all_coordinates(const Program& program) {
  std::array<Axis, kNumAxes> fastest_first = kAllAxes;
  std::sort(fastest_first.begin(), fastest_first.end(), [&](Axis a, Axis b) {
    return program.placement.stride[a] < program.placement.stride[b];
  });
  const std::int64_t num_ranks = program.mesh.num_ranks();
  Indexed<std::int64_t, Coordinates> out;
  out.reserve(num_ranks);
  Coordinates now{};
  for (std::int64_t rank = 0; rank < num_ranks; ++rank) {
    out.push_back(now);
    for (const Axis a : fastest_first) {
      if (++now[a] < program.mesh[a]) break;
      now[a] = 0;
    }
  }
  return out;
}

bool is_member(const Group& group, const Coordinates& at) {
  return group.members.empty() || std::find(group.members.begin(), group.members.end(),
                                            at[Axis::kPp]) != group.members.end();
}

GroupIndex::GroupIndex(const Program& program, const Group& group) {
  for (const Axis a : kAllAxes) {
    const bool inside = std::find(group.axes.begin(), group.axes.end(), a) != group.axes.end();
    stride[a] = inside ? 0 : count;
    if (!inside) count *= program.mesh[a];
  }
}

std::int64_t GroupIndex::of(const Coordinates& at) const {
  std::int64_t index = 0;
  for (const Axis a : kAllAxes) index += at[a] * stride[a];
  return index;
}

std::int64_t receiver(const Program& program, const Lane& lane, const Coordinates& at,
                      std::int64_t rank) {
  const Axis a = lane.axis;
  const std::int32_t there = (at[a] + lane.offset) % program.mesh[a];
  return rank + (there - at[a]) * program.placement.stride[a];
}

}  // namespace trainyard
