#include "real/parameters/rank_coordinates.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/passes/plan_mesh.h"
#include "engine/program/rank_places.h"
#include "engine/sharding/spec_boxes.h"
#include "engine/sharding/uneven_pieces.h"

namespace trainyard {

namespace {

/// Axes that split a dim, all its parts alike, coarsest first.
const Axes& splitting(const TensorSpec& spec, int dim) {
  const DimSplit& split = spec.dims.begin()[dim];
  check(is_cut_alike(split), "parts are cut alike");
  return split.parts.front().axes;
}

}  // namespace

std::vector<std::int64_t> members_of(const Program& program, const Group& group,
                                     const Coordinate& at) {
  std::vector<std::int64_t> ranks;
  for (const Coordinate& one : members_at(program, group, at))
    ranks.push_back(rank_at(program, one));
  return ranks;
}

std::int64_t peer_of(const Program& program, const Transfer& transfer, const Coordinate& at) {
  const auto peer = peer_at(program, transfer, at);
  check(peer.has_value(), "who sends or receives has a peer");
  return rank_at(program, *peer);
}

bool is_cut_alike(const DimSplit& dim) {
  return dim.after.empty() &&
         std::all_of(dim.parts.begin(), dim.parts.end(),
                     [&](const DimPart& part) { return part.axes == dim.parts.front().axes; });
}

std::int64_t replica_at(const Program& program, const Coordinate& at) {
  return place_in_group(program.mesh, data_axes(program.mesh), at);
}

std::int64_t copy_at(const Program& program, const Coordinate& at) {
  return place_in_group(program.mesh, program.groups[kDataGroup].axes, at);
}

std::int64_t first_row(const Program& program, const Value& value, const Coordinate& at) {
  TensorSpec rows = spec_of(program, value);
  if (rows.dims.empty() || !is_cut_alike(rows.dims.front())) return 0;
  Axes& axes = rows.dims.front().parts.front().axes;
  const AxisSet replicas = set_of(data_axes(program.mesh));
  axes.erase(
      std::remove_if(axes.begin(), axes.end(), [&](AxisId axis) { return has(replicas, axis); }),
      axes.end());
  return shard_start(rows, 0, value.dims.front().expected, program.mesh, at);
}

std::int64_t replicas_alike(const TensorSpec& spec, const DeviceMesh& slice) {
  std::int64_t alike = 1;
  for (const AxisId axis : data_axes(slice)) {
    if (!dim_of(spec, axis)) alike *= slice.size(axis);
  }
  return alike;
}

std::int64_t shard_start(const TensorSpec& spec, int dim, std::int64_t extent,
                         const DeviceMesh& mesh, const Coordinate& at) {
  const DimSplit& split = spec.dims.begin()[dim];
  if (split.parts.size() == 1 && is_uneven(split, mesh))
    return dim_ranges(split, counted_extent(split), mesh, at).front().begin;
  return place_in_group(mesh, splitting(spec, dim), at) * extent;
}

std::int64_t global_extent(const TensorSpec& spec, int dim, std::int64_t extent,
                           const DeviceMesh& slice) {
  const DimSplit& split = spec.dims.begin()[dim];
  if (is_uneven(split, slice)) return counted_extent(split);
  return group_size(slice, splitting(spec, dim)) * extent;
}

Extents global_extents(const TensorSpec& spec, const Dims& local, const DeviceMesh& slice) {
  Extents out;
  for (std::size_t d = 0; d < local.size(); ++d) {
    const std::int64_t counted = counted_extent(spec.dims[d]);
    const Axes& axes = spec.dims[d].parts.front().axes;
    out.push_back(counted > 0 ? counted : local[d].expected * group_size(slice, axes));
  }
  return out;
}

std::int64_t slice_start(const TensorSpec& slice, const TensorSpec& whole, std::int64_t elements,
                         const DeviceMesh& mesh, const Coordinate& at) {
  Axes cutting;
  for (const AxisId axis : splitting(slice, 0)) {
    if (!dim_of(whole, axis)) cutting.push_back(axis);
  }
  return place_in_group(mesh, cutting, at) * elements;
}

bool first_of_copies(const TensorSpec& spec, const Program& program, const Coordinate& at) {
  const DeviceMesh& mesh = program.mesh;
  AxisSet apart = set_of(program.groups[kDataGroup].axes);
  if (const AxisId stages = stage_axis(mesh); stages != kNoAxis)
    apart = static_cast<AxisSet>(apart | bit(stages));
  for (const DimSplit& dim : spec.dims) apart = static_cast<AxisSet>(apart | axes_in(dim));
  for (AxisId axis = 0; axis < mesh.num_axes(); ++axis) {
    if (!has(apart, axis) && at[axis] != 0) return false;
  }
  return true;
}

}  // namespace trainyard
