#include "engine/sharding/spec_boxes.h"

#include <algorithm>

#include "engine/base/error.h"

namespace trainyard {

namespace {

/// Ranks along an axis where `coordinate` lies.
std::int32_t ranks_along(const DeviceMesh& mesh, AxisId axis, const Coordinate& coordinate) {
  const MeshAxis& of = mesh.axes[axis];
  return of.sizes.empty() ? of.size : of.sizes[coordinate.begin()[stage_axis(mesh)]];
}

void append(IndexRanges& ranges, IndexRange range) {
  if (range.begin == range.end) return;
  if (!ranges.empty() && ranges.back().end == range.begin) {
    ranges.back().end = range.end;
  } else {
    ranges.push_back(range);
  }
}

/// Elements [chunk.begin, chunk.end) of the list `ranges`, counted through them.
IndexRanges window(const IndexRanges& ranges, IndexRange chunk) {
  IndexRanges out;
  std::int64_t at = 0;
  for (const IndexRange& range : ranges) {
    const std::int64_t first = std::max(chunk.begin, at);
    const std::int64_t last = std::min(chunk.end, at + range.size());
    if (first < last) append(out, {range.begin + first - at, range.begin + last - at});
    at += range.size();
  }
  return out;
}

IndexRanges cut_after(IndexRanges ranges, const Axes& after, const DeviceMesh& mesh,
                      const Coordinate& coordinate) {
  for (const AxisId axis : after) {
    std::int64_t extent = 0;
    for (const IndexRange& range : ranges) extent += range.size();
    const std::int64_t ranks = ranks_along(mesh, axis, coordinate);
    const std::int64_t chunk = (extent + ranks - 1) / ranks;
    const std::int64_t begin = chunk * coordinate.begin()[axis];
    ranges = window(ranges, {std::min(begin, extent), std::min(begin + chunk, extent)});
  }
  return ranges;
}

}  // namespace

IndexRange cut_pieces(std::int64_t count, const Axes& axes, const DeviceMesh& mesh,
                      const Coordinate& coordinate) {
  std::int64_t begin = 0;
  for (const AxisId axis : axes) {
    const std::int64_t ranks = ranks_along(mesh, axis, coordinate);
    const std::int64_t c = coordinate.begin()[axis];
    const std::int64_t least = count / ranks;
    const std::int64_t more = count % ranks;  // ranks with one more
    begin += c * least + std::min(c, more);
    count = least + (c < more ? 1 : 0);
  }
  return {begin, begin + count};
}

IndexRanges dim_ranges(const DimSplit& dim, std::int64_t extent, const DeviceMesh& mesh,
                       const Coordinate& coordinate, AxisSet without) {
  check(extent >= 0, "boxes of a dim whose extent is not bound yet");
  Coordinate mirrored = coordinate;
  for (const AxisId axis : mesh.axis_ids()) {
    auto& c = mirrored.begin()[axis];
    c = ranks_along(mesh, axis, coordinate) - 1 - c;
  }
  IndexRanges ranges;
  std::int64_t start = 0;
  for (const DimPart& part : dim.parts) {
    const std::int64_t count = part.count == 0 ? extent : part.count;
    const bool there = (without & ~(set_of(part.axes) | set_of(dim.after))) == 0;
    if (there) {
      const IndexRange pieces =
          cut_pieces(count, part.axes, mesh, part.reversed ? mirrored : coordinate);
      append(ranges, {start + pieces.begin * part.unit, start + pieces.end * part.unit});
    }
    start += count * part.unit;
  }
  return cut_after(std::move(ranges), dim.after, mesh, coordinate);
}

std::int64_t overlap(const IndexRanges& a, const IndexRanges& b) {
  std::int64_t elements = 0;
  for (const IndexRange& x : a) {
    for (const IndexRange& y : b)
      elements += std::max<std::int64_t>(0, std::min(x.end, y.end) - std::max(x.begin, y.begin));
  }
  return elements;
}

std::optional<std::vector<IndexRanges>> local_ranges(const TensorSpec& spec, const Extents& extents,
                                                     const DeviceMesh& mesh,
                                                     const Coordinate& coordinate) {
  AxisSet without = 0;  // not the holder, where the axis splits some parts
  for (const Held& held : spec.held) {
    if (coordinate.begin()[held.axis] == held.coordinate) continue;
    if (!dim_of(spec, held.axis)) return std::nullopt;
    without = static_cast<AxisSet>(without | bit(held.axis));
  }
  std::vector<IndexRanges> out;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    const auto here = static_cast<AxisSet>(without & axes_in(spec.dims[d]));
    out.push_back(dim_ranges(spec.dims[d], extents[d], mesh, coordinate, here));
  }
  return out;
}

std::int64_t local_elements(const TensorSpec& spec, const Extents& extents, const DeviceMesh& mesh,
                            const Coordinate& coordinate) {
  const auto ranges = local_ranges(spec, extents, mesh, coordinate);
  std::int64_t elements = ranges ? 1 : 0;
  for (std::size_t d = 0; ranges && d < extents.size(); ++d) {
    std::int64_t local = 0;
    for (const IndexRange& range : (*ranges)[d]) local += range.size();
    elements *= local;
  }
  return elements;
}

std::vector<Box> boxes(const TensorSpec& spec, const Extents& extents, const DeviceMesh& mesh,
                       const Coordinate& coordinate) {
  const auto ranges = local_ranges(spec, extents, mesh, coordinate);
  if (!ranges) return {};
  std::vector<Box> out = {{}};
  for (const IndexRanges& dim : *ranges) {
    std::vector<Box> longer;
    for (const Box& box : out) {
      for (const IndexRange& range : dim) {
        longer.push_back(box);
        longer.back().push_back(range);
      }
    }
    out = std::move(longer);
  }
  return out;
}

}  // namespace trainyard
