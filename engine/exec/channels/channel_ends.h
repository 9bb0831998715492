// Which ranks communicate with each other, by their coordinates on the device mesh alone: the
// members of a group, the two ends of a transfer.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/exec/channels/lanes.h"
#include "engine/program/program.h"

namespace trainyard {

using Coordinates = std::span<const std::int32_t>;  // per axis of the mesh

/// The coordinates of every rank of a Program.
class RankCoordinates {
 public:
  explicit RankCoordinates(const Program& program);
  std::int64_t num_ranks() const { return num_ranks_; }
  Coordinates operator[](std::int64_t rank) const {
    return {of_axes_.data() + position(rank) * num_axes_, num_axes_};
  }
  std::int32_t pipeline_rank(std::int64_t rank) const {
    return stages_ == kNoAxis ? 0 : (*this)[rank][position(stages_)];
  }
  /// Index of the rank's list in Program::body.
  std::int32_t list(std::int64_t rank) const {
    return lists_.empty() ? pipeline_rank(rank) : lists_[rank];
  }

 private:
  std::int64_t num_ranks_;
  std::size_t num_axes_;
  AxisId stages_;
  std::vector<std::int32_t> of_axes_;          // rank by rank
  Indexed<std::int64_t, std::int32_t> lists_;  // [rank], of a mesh with an unlike axis
};

/// Numbers the groups of a kind: mixed radix over the axes that a group does not span. Over the
/// unlike axis it leaves gaps.
class GroupIndex {
 public:
  GroupIndex(const Program& program, const Group& group);
  /// Whether the group has members at the pipeline rank of who is at `at`.
  bool has_member(Coordinates at) const;
  std::int64_t of(Coordinates at) const;
  std::int64_t count() const { return count_; }

 private:
  const Group& group_;
  AxisId stages_;
  std::array<std::int64_t, kMostAxes> stride_{};
  std::int64_t count_ = 1;
};

/// The rank to which `rank`, which is at `at`, sends on a lane of transfers.
std::int64_t receiver(const Program& program, const Lane& lane, Coordinates at, std::int64_t rank);

}  // namespace trainyard
