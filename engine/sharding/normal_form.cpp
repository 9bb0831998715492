#include "engine/sharding/normal_form.h"

#include <algorithm>
#include <numeric>

#include "engine/sharding/spec_boxes.h"

namespace trainyard {

namespace {

Axes without_ones(const Axes& axes, const DeviceMesh& mesh) {
  Axes out;
  for (const AxisId axis : axes) {
    if (mesh.size(axis) > 1) out.push_back(axis);
  }
  return out;
}

std::int64_t elements(const DimPart& part) { return part.count * part.unit; }

/// Calls `visit` with each coordinate along `axes`; the others are 0.
template <typename Visit>
void for_each_coordinate(const Axes& axes, const DeviceMesh& mesh, Visit visit) {
  Coordinate coordinate = uniform_coordinate(mesh, 0);
  for (std::int64_t member = group_size(mesh, axes); member-- > 0;) {
    std::int64_t rest = member;
    for (const AxisId axis : axes) {
      coordinate.begin()[axis] = static_cast<std::int32_t>(rest % mesh.size(axis));
      rest /= mesh.size(axis);
    }
    if (!visit(coordinate)) return;
  }
}

/// The largest number that divides all bounds of what ranks hold.
std::int64_t common_unit(const DimSplit& dim, std::int64_t extent, const DeviceMesh& mesh) {
  std::int64_t unit = extent;
  for_each_coordinate(axes_of(axes_in(dim)), mesh, [&](const Coordinate& coordinate) {
    for (const IndexRange& range : dim_ranges(dim, extent, mesh, coordinate))
      unit = std::gcd(unit, std::gcd(range.begin, range.end));
    return unit > 1;
  });
  return unit;
}

}  // namespace

bool equal_ranges(const DimSplit& a, const DimSplit& b, std::int64_t extent,
                  const DeviceMesh& mesh) {
  const Axes axes = axes_of(static_cast<AxisSet>(axes_in(a) | axes_in(b)));
  bool equal = true;
  for_each_coordinate(axes, mesh, [&](const Coordinate& coordinate) {
    equal = dim_ranges(a, extent, mesh, coordinate) == dim_ranges(b, extent, mesh, coordinate);
    return equal;
  });
  return equal;
}

namespace {

/// The same boxes with the largest unit; axes that cut single pieces, of which all but one of their
/// ranks get nothing, ascend.
DimPart normal_part(DimPart part, const DeviceMesh& mesh) {
  if (part.axes.empty()) return {1, elements(part), {}, false};
  const std::int64_t ranks = group_size(mesh, part.axes);
  if (elements(part) % ranks == 0 && part.count % ranks == 0) {
    part.unit = elements(part) / ranks;
    part.count = ranks;
  }
  std::int64_t most = part.count;  // pieces that a rank may have
  for (std::size_t i = 0; i < part.axes.size(); ++i) {
    if (most <= 1) {
      std::sort(part.axes.begin() + static_cast<std::ptrdiff_t>(i), part.axes.end());
      break;
    }
    most = (most + mesh.size(part.axes[i]) - 1) / mesh.size(part.axes[i]);
  }
  return part;
}

/// Parts [first, last) as one, where its boxes are theirs.
std::optional<DimPart> joined(const DimSplit& dim, std::size_t first, std::size_t last,
                              const DeviceMesh& mesh) {
  DimSplit apart;
  apart.parts.assign(dim.parts.begin() + static_cast<std::ptrdiff_t>(first),
                     dim.parts.begin() + static_cast<std::ptrdiff_t>(last));
  std::int64_t extent = 0;
  std::int64_t unit = 0;
  for (const DimPart& part : apart.parts) {
    if (part.axes != apart.parts.front().axes) return std::nullopt;
    extent += elements(part);
    unit = std::gcd(unit, part.unit);
  }
  for (const bool reversed : {false, true}) {
    for (const std::int64_t size : {unit, common_unit(apart, extent, mesh)}) {
      DimSplit one;
      one.parts.front() = {extent / size, size, apart.parts.front().axes, reversed};
      if (equal_ranges(apart, one, extent, mesh)) return normal_part(one.parts.front(), mesh);
    }
  }
  return std::nullopt;
}

/// Joins the first neighbours that are cut as one; false: none are.
bool join_neighbours(DimSplit& dim, const DeviceMesh& mesh) {
  for (std::size_t first = 0; first < dim.parts.size(); ++first) {
    for (std::size_t last = dim.parts.size(); last > first + 1; --last) {
      if (const auto one = joined(dim, first, last, mesh)) {
        dim.parts.erase(dim.parts.begin() + static_cast<std::ptrdiff_t>(first) + 1,
                        dim.parts.begin() + static_cast<std::ptrdiff_t>(last));
        dim.parts[first] = *one;
        return true;
      }
    }
  }
  return false;
}

/// Moves an axis from `after` into the only part's list, where the boxes stay; false: they do not.
bool take_after(DimSplit& dim, std::int64_t extent, const DeviceMesh& mesh) {
  if (dim.parts.size() > 1 || dim.after.empty()) return false;
  const DimPart& part = dim.parts.front();
  DimSplit first = dim;  // without the cuts behind
  first.after = {dim.after.front()};
  for (const std::int64_t unit : {part.unit, std::int64_t{1}, common_unit(first, extent, mesh)}) {
    for (std::size_t place = part.axes.size() + 1; place-- > 0;) {
      DimSplit other = dim;
      DimPart& longer = other.parts.front();
      longer.count = extent / unit;
      longer.unit = unit;
      longer.axes.insert(longer.axes.begin() + static_cast<std::ptrdiff_t>(place),
                         dim.after.front());
      other.after.erase(other.after.begin());
      if (!equal_ranges(dim, other, extent, mesh)) continue;
      dim = std::move(other);
      return true;
    }
  }
  return false;
}

/// A dim of one part has no count where pieces of one element are cut alike.
void drop_count(DimSplit& dim, std::int64_t extent, const DeviceMesh& mesh) {
  if (dim.parts.size() != 1) return;
  DimPart& part = dim.parts.front();
  const std::int64_t ranks = group_size(mesh, part.axes);
  if (part.unit == 1 || (extent % ranks == 0 && part.count % ranks == 0)) {
    part.count = 0;
    part.unit = 1;
  }
}

}  // namespace

DimSplit normal_dim(const DimSplit& dim, std::int64_t extent, const DeviceMesh& mesh) {
  DimSplit out = dim;
  for (DimPart& part : out.parts) {
    part.axes = without_ones(part.axes, mesh);
    if (part.count == 0 && extent != kLateExtent) part.count = extent;
  }
  out.after = without_ones(out.after, mesh);
  if (extent == kLateExtent) return out;
  for (DimPart& part : out.parts) part = normal_part(part, mesh);
  while (join_neighbours(out, mesh)) {
  }
  while (take_after(out, extent, mesh)) {
  }
  for (DimPart& part : out.parts) part = normal_part(part, mesh);
  drop_count(out, extent, mesh);
  return out;
}

TensorSpec normal_form(const TensorSpec& spec, const Extents& extents, const DeviceMesh& mesh) {
  TensorSpec out = spec;
  for (std::size_t d = 0; d < extents.size(); ++d)
    out.dims[d] = normal_dim(spec.dims[d], extents[d], mesh);
  for (const AxisId axis : mesh.axis_ids()) {
    if (mesh.size(axis) == 1) set_state(out, axis, AxisState::kReplicated);
  }
  return out;
}

}  // namespace trainyard
