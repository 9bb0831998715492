#include "engine/sharding/uneven_pieces.h"

#include <algorithm>

#include "engine/sharding/spec_boxes.h"

namespace trainyard {

PieceSizes piece_sizes(const DimPart& part, std::int64_t extent, const DeviceMesh& mesh) {
  const Coordinate first = uniform_coordinate(mesh, 0);
  Coordinate last = first;
  for (const AxisId axis : part.axes) last.begin()[axis] = mesh.size(axis) - 1;
  const auto size_at = [&](const Coordinate& at) {
    const IndexRange pieces =
        cut_pieces(part.count == 0 ? extent : part.count, part.axes, mesh, at);
    return pieces.size() * part.unit;
  };
  return {size_at(first), size_at(last)};
}

std::int64_t counted_extent(const DimSplit& dim) {
  std::int64_t extent = 0;
  for (const DimPart& part : dim.parts) extent += part.count * part.unit;
  return extent;
}

bool is_uneven(const DimSplit& dim, std::int64_t extent, const DeviceMesh& mesh) {
  return std::any_of(dim.parts.begin(), dim.parts.end(), [&](const DimPart& part) {
    const PieceSizes sizes = piece_sizes(part, extent, mesh);
    return sizes.most != sizes.fewest;
  });
}

bool is_uneven(const DimSplit& dim, const DeviceMesh& mesh) {
  return dim.parts.front().count != 0 && is_uneven(dim, 0, mesh);
}

bool is_uneven(const TensorSpec& spec, const DeviceMesh& mesh) {
  return std::any_of(spec.dims.begin(), spec.dims.end(),
                     [&](const DimSplit& dim) { return is_uneven(dim, mesh); });
}

TensorSpec with_counts(TensorSpec spec, const Extents& extents, const DeviceMesh& mesh) {
  for (std::size_t d = 0; d < spec.dims.size(); ++d) {
    DimPart& part = spec.dims[d].parts.front();
    const bool counted = part.count != 0 || spec.dims[d].parts.size() > 1;
    if (!counted && is_uneven(spec.dims[d], extents[d], mesh)) part.count = extents[d];
  }
  return spec;
}

}  // namespace trainyard
