#include "engine/exec/channel_ends.h"

#include <algorithm>

namespace trainyard {

// One ascending sweep over the ranks: their coordinates count up like an odometer whose fastest
// digit is the axis with the smallest stride.
std::vector<Coordinates> all_coordinates(const Program& program) {
  std::array<std::size_t, kNumAxes> fastest_first = {0, 1, 2, 3, 4};
  std::sort(fastest_first.begin(), fastest_first.end(), [&](std::size_t a, std::size_t b) {
    return program.placement.stride[a] < program.placement.stride[b];
  });
  const auto num_ranks = static_cast<std::size_t>(program.mesh.num_ranks());
  std::vector<Coordinates> out;
  out.reserve(num_ranks);
  Coordinates now{};
  for (std::size_t rank = 0; rank < num_ranks; ++rank) {
    out.push_back(now);
    for (std::size_t a : fastest_first) {
      if (++now[a] < program.mesh.size[a]) break;
      now[a] = 0;
    }
  }
  return out;
}

bool is_member(const Group& group, const Coordinates& at) {
  return group.members.empty() ||
         std::find(group.members.begin(), group.members.end(), at[0]) != group.members.end();
}

GroupIndex::GroupIndex(const Program& program, const Group& group) {
  for (std::size_t a = 0; a < kNumAxes; ++a) {
    const bool inside =
        std::find(group.axes.begin(), group.axes.end(), static_cast<Axis>(a)) != group.axes.end();
    stride[a] = inside ? 0 : count;
    if (!inside) count *= program.mesh.size[a];
  }
}

std::int64_t GroupIndex::of(const Coordinates& at) const {
  std::int64_t index = 0;
  for (std::size_t a = 0; a < kNumAxes; ++a) index += at[a] * stride[a];
  return index;
}

std::int64_t receiver(const Program& program, const Lane& lane, const Coordinates& at,
                      std::int64_t rank) {
  const auto a = static_cast<std::size_t>(lane.axis);
  const std::int32_t there = (at[a] + lane.offset) % program.mesh.size[a];
  return rank + (there - at[a]) * program.placement.stride[a];
}

}  // namespace trainyard
