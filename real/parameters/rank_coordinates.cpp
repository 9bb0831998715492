#include "real/parameters/rank_coordinates.h"

#include <algorithm>

#include "engine/program/rank_places.h"

namespace trainyard {

namespace {

/// What a spec's label stands for on the mesh.
Axes axes_of(const DeviceMesh& mesh, Axis label) {
  return find_axes(mesh, to_string(label)).value_or(Axes{});
}

Axes replica_axes(const DeviceMesh& mesh) { return axes_of(mesh, Axis::kDp); }

/// Axes that split a dim, coarsest first.
Axes splitting(const ShardingSpec& spec, int dim, const DeviceMesh& mesh) {
  Axes axes;
  for (const Axis label : kAllAxes) {
    if (spec[label] != shard(dim)) continue;
    const Axes of_label = axes_of(mesh, label);
    axes.insert(axes.end(), of_label.begin(), of_label.end());
  }
  return axes;
}

}  // namespace

std::vector<std::int64_t> members_of(const Program& program, const Group& group,
                                     const Coordinate& at) {
  const AxisId stages = stage_axis(program.mesh);
  const auto listed = [&](std::int32_t stage) {
    return group.members.empty() ||
           std::find(group.members.begin(), group.members.end(), stage) != group.members.end();
  };
  if (!group.members.empty() && !listed(at[stages])) return {};
  std::vector<Coordinate> all = {at};
  for (const AxisId axis : group.axes) {
    std::vector<Coordinate> next;
    for (const Coordinate& one : all) {
      for (std::int32_t k = 0; k < program.mesh.size(axis); ++k) {
        if (axis == stages && !listed(k)) continue;
        next.push_back(one);
        next.back()[axis] = k;
      }
    }
    all = std::move(next);
  }
  std::vector<std::int64_t> ranks;
  for (const Coordinate& one : all) ranks.push_back(rank_at(program.placement, one));
  return ranks;
}

std::int64_t peer_of(const Program& program, const Transfer& transfer, const Coordinate& at) {
  Coordinate peer = at;
  const std::int32_t size = program.mesh.size(transfer.axis);
  peer[transfer.axis] = ((at[transfer.axis] + transfer.offset) % size + size) % size;
  return rank_at(program.placement, peer);
}

std::int64_t replica_at(const DeviceMesh& mesh, const Coordinate& at) {
  return place_in_group(mesh, replica_axes(mesh), at);
}

std::int64_t shard_start(const ShardingSpec& spec, int dim, std::int64_t extent,
                         const DeviceMesh& mesh, const Coordinate& at) {
  return place_in_group(mesh, splitting(spec, dim, mesh), at) * extent;
}

std::int64_t global_extent(const ShardingSpec& spec, int dim, std::int64_t extent,
                           const DeviceMesh& mesh) {
  return group_size(mesh, splitting(spec, dim, mesh)) * extent;
}

bool first_of_copies(const ShardingSpec& spec, const DeviceMesh& mesh, const Coordinate& at) {
  AxisSet apart = set_of(replica_axes(mesh));
  if (const AxisId stages = stage_axis(mesh); stages != kNoAxis)
    apart = static_cast<AxisSet>(apart | bit(stages));
  for (const Axis label : kAllAxes) {
    if (spec[label].kind == AxisPlacement::Kind::kShard)
      apart = static_cast<AxisSet>(apart | set_of(axes_of(mesh, label)));
  }
  for (AxisId axis = 0; axis < mesh.num_axes(); ++axis) {
    if (!has(apart, axis) && at[axis] != 0) return false;
  }
  return true;
}

}  // namespace trainyard
