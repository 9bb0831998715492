#include "engine/sharding/replica_axes.h"

#include <algorithm>
#include <utility>

namespace trainyard {

namespace {

/// The list that has the unlike axis; nullptr: it stands alone.
const std::pair<std::string, Axes>* replica_list(const DeviceMesh& mesh, AxisId unlike) {
  for (const auto& list : mesh.names) {
    if (has(set_of(list.second), unlike)) return &list;
  }
  return nullptr;
}

}  // namespace

Axes replica_axes(const DeviceMesh& mesh) {
  const AxisId unlike = unlike_axis(mesh);
  if (unlike == kNoAxis) return {};
  const auto* list = replica_list(mesh, unlike);
  return list != nullptr ? list->second : Axes{unlike};
}

std::string replica_axes_name(const DeviceMesh& mesh) {
  const AxisId unlike = unlike_axis(mesh);
  const auto* list = replica_list(mesh, unlike);
  return list != nullptr ? list->first : mesh.axis_name(unlike);
}

std::int32_t num_replicas(const DeviceMesh& mesh, std::int32_t pipeline_rank) {
  return static_cast<std::int32_t>(group_size(mesh, replica_axes(mesh), pipeline_rank));
}

std::int32_t replica_of(const DeviceMesh& mesh, const Coordinate& at) {
  return static_cast<std::int32_t>(place_in_group(mesh, replica_axes(mesh), at));
}

void move_to_replica(const DeviceMesh& mesh, std::int32_t replica, Coordinate& at) {
  const Axes axes = replica_axes(mesh);
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    const std::int32_t size = mesh.size(*axis, at[stage_axis(mesh)]);
    at[*axis] = replica % size;
    replica /= size;
  }
}

}  // namespace trainyard
