#include "engine/program/rank_places.h"

namespace trainyard {

std::int32_t coordinate(const Program& program, std::int64_t rank, AxisId axis) {
  const std::int32_t size = program.mesh.size(axis);
  return size == 1 ? 0 : static_cast<std::int32_t>(rank / program.placement.stride[axis] % size);
}

Coordinate coordinate_of(const Program& program, std::int64_t rank) {
  Coordinate at;
  for (AxisId axis = 0; axis < program.mesh.num_axes(); ++axis)
    at.push_back(coordinate(program, rank, axis));
  return at;
}

std::int64_t rank_at(const Placement& placement, const Coordinate& at) {
  std::int64_t rank = 0;
  for (std::size_t axis = 0; axis < at.size(); ++axis) rank += at[axis] * placement.stride[axis];
  return rank;
}

std::int32_t pipeline_rank(const Program& program, std::int64_t rank) {
  const AxisId stages = stage_axis(program.mesh);
  return stages == kNoAxis ? 0 : coordinate(program, rank, stages);
}

std::int64_t place_in_group(const Program& program, const Axes& axes, std::int64_t rank) {
  std::int64_t place = 0;
  for (const AxisId axis : axes)
    place = place * program.mesh.size(axis) + coordinate(program, rank, axis);
  return place;
}

}  // namespace trainyard
