#include "engine/program/row_positions.h"

#include "engine/sharding/mesh_slice.h"
#include "engine/sharding/uneven_pieces.h"

namespace trainyard {

IndexRanges row_positions(const Program& program, ValueId id, const Coordinate& at,
                          std::int32_t shifted_by) {
  const Value& value = program.values[id];
  const TensorSpec spec = spec_of(program, value);
  const DimSplit& dim = spec.dims.begin()[kSequenceDim];
  const Axes& axes = dim.parts.front().axes;
  const DeviceMesh mesh = mesh_slice(program.mesh, at);
  const std::int64_t ranks = group_size(mesh, axes);
  std::int64_t place = (place_in_group(mesh, axes, at) + ranks - shifted_by) % ranks;
  Coordinate from = at;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    from[*axis] = static_cast<std::int32_t>(place % mesh.size(*axis));
    place /= mesh.size(*axis);
  }
  const std::int64_t counted = counted_extent(dim);  // 0: as many elements as ranks have together
  const std::int64_t extent = counted > 0 ? counted : value.dims[kSequenceDim].expected * ranks;
  return dim_ranges(dim, extent, mesh, from);
}

}  // namespace trainyard
