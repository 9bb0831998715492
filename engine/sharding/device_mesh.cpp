#include "engine/sharding/device_mesh.h"

#include <algorithm>
#include <set>

#include "engine/base/user_text.h"

namespace trainyard {

namespace {

bool is_name(std::string_view text) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !text.empty() && text != "after" && std::all_of(text.begin(), text.end(), fits);
}

AxisSet all_axes(const DeviceMesh& mesh) {
  AxisSet set = 0;
  for (const AxisId axis : mesh.axis_ids()) set = static_cast<AxisSet>(set | bit(axis));
  return set;
}

/// Ranks of a group over these axes at one pipeline rank.
std::int64_t ranks_at(const DeviceMesh& mesh, const Axes& axes, std::int32_t pipeline_rank) {
  std::int64_t ranks = 1;
  for (const AxisId axis : axes)
    if (!mesh.axes[axis].stages) ranks *= mesh.size(axis, pipeline_rank);
  return ranks;
}

/// The same of all before a pipeline rank.
std::int64_t ranks_before(const DeviceMesh& mesh, const Axes& axes, std::int32_t pipeline_rank) {
  std::int64_t ranks = 0;
  for (std::int32_t p = 0; p < pipeline_rank; ++p) ranks += ranks_at(mesh, axes, p);
  return ranks;
}

bool among(const Axes& axes, AxisId axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

std::int32_t pipeline_rank_of(const DeviceMesh& mesh, const Coordinate& at) {
  const AxisId stages = stage_axis(mesh);
  return stages == kNoAxis ? 0 : at[stages];
}

std::optional<std::string> sizes_problem(const DeviceMesh& mesh, const MeshAxis& axis) {
  if (axis.sizes.empty()) return std::nullopt;
  if (&axis != &mesh.axes[unlike_axis(mesh)])
    return "axis " + axis.name + " is the second whose size differs by pipeline rank";
  if (axis.stages || stage_axis(mesh) != 0)
    return "axis " + axis.name + " differs by pipeline rank, and the first axis is not the stages";
  if (std::ssize(axis.sizes) != num_pipeline_ranks(mesh))
    return "axis " + axis.name + " has " + std::to_string(axis.sizes.size()) + " sizes for " +
           std::to_string(num_pipeline_ranks(mesh)) + " pipeline ranks";
  const auto [least, most] = std::minmax_element(axis.sizes.begin(), axis.sizes.end());
  if (*least < 1) return "axis " + axis.name + " has " + std::to_string(*least) + " ranks";
  if (*most != axis.size)
    return "axis " + axis.name + " has size " + std::to_string(axis.size) +
           ", not that of the largest";
  return std::nullopt;
}

std::optional<std::string> name_problem(const std::string& name, std::set<std::string>& seen) {
  if (!is_name(name))
    return in_quotes(name) + " is no name of an axis: small letters, digits and _, not 'after'";
  if (!seen.insert(name).second) return in_quotes(name) + " is a name twice";
  return std::nullopt;
}

}  // namespace

AxisSet set_of(const Axes& axes) {
  AxisSet set = 0;
  for (const AxisId axis : axes) set = static_cast<AxisSet>(set | bit(axis));
  return set;
}

Axes axes_of(AxisSet set) {
  Axes axes;
  for (AxisId axis = 0; axis < kMostAxes; ++axis) {
    if (has(set, axis)) axes.push_back(axis);
  }
  return axes;
}

std::int64_t DeviceMesh::num_ranks() const {
  return group_size(*this, axes_of(all_axes(*this)), 0);
}

std::optional<std::string> mesh_problem(const DeviceMesh& mesh) {
  if (std::ssize(mesh.axes) > kMostAxes) {
    return "a mesh has at most " + std::to_string(kMostAxes) + " axes, not " +
           std::to_string(mesh.axes.size());
  }
  std::set<std::string> seen;
  std::int64_t ranks = 1;
  for (const MeshAxis& axis : mesh.axes) {
    if (auto problem = name_problem(axis.name, seen)) return problem;
    if (axis.stages && &axis != &mesh.axes[stage_axis(mesh)])
      return "axis " + axis.name + " is the second that tells stages apart";
    if (axis.size < 1)
      return "axis " + axis.name + " has " + std::to_string(axis.size) + " ranks; 1 is the least";
    if (auto problem = sizes_problem(mesh, axis)) return problem;
    ranks *= axis.size;
    if (ranks > kMostMeshRanks)
      return "the mesh has more than " + std::to_string(kMostMeshRanks) + " ranks";
  }
  for (const auto& [name, axes] : mesh.names) {
    if (auto problem = name_problem(name, seen)) return problem;
    if (static_cast<std::size_t>(__builtin_popcount(set_of(axes))) != axes.size())
      return in_quotes(name) + " names an axis twice";
    for (const AxisId axis : axes) {
      if (axis < 0 || axis >= mesh.num_axes())
        return in_quotes(name) + " names an axis that the mesh does not have";
    }
  }
  return std::nullopt;
}

std::optional<Axes> find_axes(const DeviceMesh& mesh, std::string_view name) {
  for (const AxisId axis : mesh.axis_ids()) {
    if (mesh.axis_name(axis) == name) return Axes{axis};
  }
  for (const auto& [list, axes] : mesh.names) {
    if (list == name) return axes;
  }
  return std::nullopt;
}

AxisId stage_axis(const DeviceMesh& mesh) {
  for (AxisId axis = 0; axis < mesh.num_axes(); ++axis) {
    if (mesh.axes[axis].stages) return axis;
  }
  return kNoAxis;
}

std::int32_t num_pipeline_ranks(const DeviceMesh& mesh) {
  const AxisId stages = stage_axis(mesh);
  return stages == kNoAxis ? 1 : mesh.size(stages);
}

std::int64_t group_size(const DeviceMesh& mesh, const Axes& axes) {
  std::int64_t ranks = 1;
  for (const AxisId axis : axes) ranks *= mesh.size(axis);
  return ranks;
}

AxisId unlike_axis(const DeviceMesh& mesh) {
  for (const AxisId axis : mesh.axis_ids()) {
    if (!mesh.axes[axis].sizes.empty()) return axis;
  }
  return kNoAxis;
}

std::int64_t group_size(const DeviceMesh& mesh, const Axes& axes, std::int32_t pipeline_rank) {
  if (unlike_axis(mesh) == kNoAxis) return group_size(mesh, axes);
  return among(axes, stage_axis(mesh)) ? ranks_before(mesh, axes, num_pipeline_ranks(mesh))
                                       : ranks_at(mesh, axes, pipeline_rank);
}

std::int64_t place_in_group(const DeviceMesh& mesh, const Axes& axes, const Coordinate& at) {
  const std::int32_t pipeline_rank = pipeline_rank_of(mesh, at);
  const bool boxes = unlike_axis(mesh) != kNoAxis && among(axes, stage_axis(mesh));
  std::int64_t place = 0;
  for (const AxisId axis : axes) {
    if (!boxes || !mesh.axes[axis].stages)
      place = place * mesh.size(axis, pipeline_rank) + at[axis];
  }
  return boxes ? ranks_before(mesh, axes, pipeline_rank) + place : place;
}

Coordinate uniform_coordinate(const DeviceMesh& mesh, std::int32_t number) {
  return Coordinate(mesh.num_axes(), number);
}

Coordinate coordinate_of(const DeviceMesh& mesh, std::int64_t rank) {
  Coordinate coordinate = uniform_coordinate(mesh, 0);
  std::int32_t pipeline_rank = 0;
  const bool boxes = unlike_axis(mesh) != kNoAxis;
  const Axes all = axes_of(all_axes(mesh));
  for (; boxes && rank >= ranks_at(mesh, all, pipeline_rank); ++pipeline_rank)
    rank -= ranks_at(mesh, all, pipeline_rank);
  for (std::size_t axis = coordinate.size(); axis-- > 0;) {
    const auto id = static_cast<AxisId>(axis);
    const std::int32_t size = mesh.size(id, pipeline_rank);
    const bool boxed = boxes && mesh.axes[id].stages;
    coordinate[axis] = boxed ? pipeline_rank : static_cast<std::int32_t>(rank % size);
    if (!boxed) rank /= size;
  }
  return coordinate;
}

std::int64_t rank_at(const DeviceMesh& mesh, const Coordinate& coordinate) {
  return place_in_group(mesh, axes_of(all_axes(mesh)), coordinate);
}

std::vector<std::int64_t> group_of(const DeviceMesh& mesh, const Axes& axes, std::int64_t rank) {
  std::vector<std::int64_t> ranks;
  for (const Coordinate& member : group_at(mesh, axes, coordinate_of(mesh, rank)))
    ranks.push_back(rank_at(mesh, member));
  return ranks;
}

std::vector<Coordinate> group_at(const DeviceMesh& mesh, const Axes& axes, const Coordinate& at) {
  std::vector<Coordinate> members = {at};
  for (const AxisId axis : axes) {
    std::vector<Coordinate> next;
    for (const Coordinate& member : members) {
      const std::int32_t size = mesh.size(axis, pipeline_rank_of(mesh, member));
      for (std::int32_t k = 0; k < size; ++k) {
        next.push_back(member);
        next.back()[axis] = k;
      }
    }
    members = std::move(next);
  }
  return members;
}

}  // namespace trainyard
