// Which ranks communicate with each other, by their coordinates on the device mesh alone: the
// members of a group, the two ends of a transfer.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/exec/channels/lanes.h"
#include "engine/program/program.h"

namespace trainyard {

using Coordinates = IndexedArray<Axis, std::int32_t, kNumAxes>;

Indexed<std::int64_t, Coordinates> all_coordinates(const Program& program);

/// Whether the group has members at this pipeline rank.
bool is_member(const Group& group, const Coordinates& at);

/// Numbers the groups of a kind: mixed radix over the axes that a group does not span.
struct GroupIndex {
  IndexedArray<Axis, std::int64_t, kNumAxes> stride{};
  std::int64_t count = 1;
  GroupIndex(const Program& program, const Group& group);
  std::int64_t of(const Coordinates& at) const;
};

/// The rank to which `rank`, which is at `at`, sends on a lane of transfers.
std::int64_t receiver(const Program& program, const Lane& lane, const Coordinates& at,
                      std::int64_t rank);

}  // namespace trainyard
