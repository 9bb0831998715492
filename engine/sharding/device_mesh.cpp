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

std::optional<std::string> name_problem(const std::string& name, std::set<std::string>& seen) {
  if (!is_name(name))
    return quoted(name) + " is no name of an axis: small letters, digits and _, not 'after'";
  if (!seen.insert(name).second) return quoted(name) + " is a name twice";
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
  std::int64_t ranks = 1;
  for (const MeshAxis& axis : axes) ranks *= axis.size;
  return ranks;
}

std::optional<std::string> mesh_problem(const DeviceMesh& mesh) {
  if (mesh.num_axes() > kMostAxes) {
    return "a mesh has at most " + std::to_string(kMostAxes) + " axes, not " +
           std::to_string(mesh.num_axes());
  }
  std::set<std::string> seen;
  std::int64_t ranks = 1;
  for (const MeshAxis& axis : mesh.axes) {
    if (auto problem = name_problem(axis.name, seen)) return problem;
    if (axis.stages && &axis != &mesh.axes[stage_axis(mesh)])
      return "axis " + axis.name + " is the second that tells stages apart";
    if (axis.size < 1)
      return "axis " + axis.name + " has " + std::to_string(axis.size) + " ranks; 1 is the least";
    ranks *= axis.size;
    if (ranks > kMostMeshRanks)
      return "the mesh has more than " + std::to_string(kMostMeshRanks) + " ranks";
  }
  for (const auto& [name, axes] : mesh.names) {
    if (auto problem = name_problem(name, seen)) return problem;
    if (static_cast<std::size_t>(__builtin_popcount(set_of(axes))) != axes.size())
      return quoted(name) + " names an axis twice";
    for (const AxisId axis : axes) {
      if (axis < 0 || axis >= mesh.num_axes())
        return quoted(name) + " names an axis that the mesh does not have";
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

std::int64_t place_in_group(const DeviceMesh& mesh, const Axes& axes, const Coordinate& at) {
  std::int64_t place = 0;
  for (const AxisId axis : axes) place = place * mesh.size(axis) + at[axis];
  return place;
}

Coordinate uniform_coordinate(const DeviceMesh& mesh, std::int32_t number) {
  return Coordinate(static_cast<std::size_t>(mesh.num_axes()), number);
}

Coordinate coordinate_of(const DeviceMesh& mesh, std::int64_t rank) {
  Coordinate coordinate = uniform_coordinate(mesh, 0);
  for (std::size_t axis = coordinate.size(); axis-- > 0;) {
    const std::int32_t size = mesh.axes[axis].size;
    coordinate[axis] = static_cast<std::int32_t>(rank % size);
    rank /= size;
  }
  return coordinate;
}

std::int64_t rank_at(const DeviceMesh& mesh, const Coordinate& coordinate) {
  std::int64_t rank = 0;
  for (std::size_t axis = 0; axis < coordinate.size(); ++axis)
    rank = rank * mesh.axes[axis].size + coordinate[axis];
  return rank;
}

std::vector<std::int64_t> group_of(const DeviceMesh& mesh, const Axes& axes, std::int64_t rank) {
  std::vector<std::int64_t> ranks;
  Coordinate coordinate = coordinate_of(mesh, rank);
  const std::int64_t size = group_size(mesh, axes);
  for (std::int64_t member = 0; member < size; ++member) {
    std::int64_t rest = member;
    for (std::size_t i = axes.size(); i-- > 0;) {
      coordinate.begin()[axes[i]] = static_cast<std::int32_t>(rest % mesh.size(axes[i]));
      rest /= mesh.size(axes[i]);
    }
    ranks.push_back(rank_at(mesh, coordinate));
  }
  return ranks;
}

}  // namespace trainyard
