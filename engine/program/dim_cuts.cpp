#include "engine/program/dim_cuts.h"

#include "engine/sharding/uneven_pieces.h"

namespace trainyard {

namespace {

Axes axes_of_part(const DimSplit& dim, const DimPart& part) {
  Axes axes = part.axes;
  axes.insert(axes.end(), dim.after.begin(), dim.after.end());
  return axes;
}

/// The most elements that a rank has of a part; 0: bound late, or in chunks behind its parts that
/// are not alike.
std::int64_t local_elements(const DimPart& part, const Axes& axes, const DeviceMesh& mesh) {
  if (axes.size() == part.axes.size()) return piece_sizes(part, 0, mesh).most;
  const std::int64_t ranks = group_size(mesh, axes);
  const std::int64_t elements = part.count * part.unit;
  return elements % ranks == 0 ? elements / ranks : 0;
}

/// The cuts of the groups of one dim; false: its parts are not the op's.
bool cut_groups(const IndexSpace& space, const IndexedDim& dim, const DimSplit& split,
                const DeviceMesh& mesh, std::vector<Axes>& out) {
  std::size_t group = 0;
  for (const DimPart& part : split.parts) {
    const Axes axes = axes_of_part(split, part);
    std::int64_t left = local_elements(part, axes, mesh);
    const bool known = left > 0;
    const bool last = &part == &split.parts.back();
    // Neighbours that nothing cuts are one part.
    for (std::size_t taken = 0; group < dim.size() && (taken == 0 || left > 0 || last); ++taken) {
      if (taken > 0 && !axes.empty()) return false;
      left -= space.extent_of(dim[group]);
      out.push_back(axes);
      ++group;
      if (known && left < 0) return false;
    }
    if (known && left != 0) return false;
  }
  return group == dim.size();
}

}  // namespace

std::optional<std::string> find_cuts(const IndexSpace& space, const IndexedTensor& indexed,
                                     const TensorSpec& spec, const Extents& local,
                                     const DeviceMesh& mesh, DimCuts& cuts) {
  cuts.clear();
  if (indexed.dims.size() != spec.dims.size() || local.size() != spec.dims.size())
    return "has " + std::to_string(spec.dims.size()) + " dims, not " +
           std::to_string(indexed.dims.size());
  for (std::size_t d = 0; d < spec.dims.size(); ++d) {
    const DimSplit& split = spec.dims[d];
    const IndexedDim& dim = indexed.dims[d];
    std::vector<Axes>& groups = cuts.emplace_back();
    if (dim.size() == 1) {
      // Element by element parts are no matter, so long as all lie alike (cut_alike()).
      groups.push_back(axes_of_part(split, split.parts.front()));
      for (const DimPart& part : split.parts) {
        if (part.axes != split.parts.front().axes)
          return "has parts in dim " + std::to_string(d) + " that are cut by unlike axes";
      }
    } else if (!cut_groups(space, dim, split, mesh, groups)) {
      return "has other parts in dim " + std::to_string(d) + " than the op";
    }
  }
  return std::nullopt;
}

Extents whole_extents(const TensorSpec& spec, const Extents& local, const DeviceMesh& mesh) {
  Extents out = local;
  for (std::size_t d = 0; d < local.size() && d < spec.dims.size(); ++d) {
    const std::int64_t counted = counted_extent(spec.dims[d]);
    out[d] = counted > 0 ? counted : local[d] * group_size(mesh, axes_of(axes_in(spec.dims[d])));
  }
  return out;
}

void cut_indices(const IndexSpace& whole, const IndexedTensor& indexed, const TensorSpec& spec,
                 const DeviceMesh& mesh, IndexSpace& space) {
  for (std::size_t d = 0; d < indexed.dims.size() && d < spec.dims.size(); ++d) {
    const auto& parts = spec.dims[d].parts;
    std::size_t part = 0;
    std::int64_t left = parts.front().count * parts.front().unit;
    for (const IndexGroup& group : indexed.dims[d]) {
      const std::int64_t extent = whole.extent_of(group);
      if (indexed.dims[d].size() > 1 && left < extent && part + 1 < parts.size()) {
        ++part;
        left = parts[part].count * parts[part].unit;
      }
      left -= extent;
      Axes axes(parts[part].axes.rbegin(), parts[part].axes.rend());
      for (const int index : group.indices) {
        std::int64_t local = whole.indices[index].extent;
        for (; !axes.empty() && local >= mesh.size(axes.back()); axes.pop_back())
          local = (local + mesh.size(axes.back()) - 1) / mesh.size(axes.back());
        space.indices[index].extent = local;
      }
    }
  }
}

namespace {

/// Neighbours that nothing cuts as one part.
DimSplit with_whole_parts_joined(const DimSplit& dim) {
  DimSplit out = dim;
  out.parts.clear();
  for (const DimPart& part : dim.parts) {
    const bool joins = !out.parts.empty() && part.axes.empty() && out.parts.back().axes.empty();
    if (!joins) {
      out.parts.push_back(part);
      continue;
    }
    DimPart& before = out.parts.back();
    before.count = before.count * before.unit + part.count * part.unit;
    before.unit = 1;
  }
  return out;
}

/// How many pieces of unlike size ranks have of a dim of one part; 0: they have pieces alike.
std::int64_t uneven_count(const DimSplit& dim, const DeviceMesh& mesh) {
  return dim.parts.size() == 1 && is_uneven(dim, mesh) ? dim.parts.front().count : 0;
}

}  // namespace

bool cut_alike(const DimSplit& a, const DimSplit& b, const DeviceMesh& mesh) {
  if (!is_split(a) && !is_split(b)) return true;
  if (a.parts.size() != b.parts.size()) {
    const DimSplit x = with_whole_parts_joined(a), y = with_whole_parts_joined(b);
    return x.parts.size() == y.parts.size() && cut_alike(x, y, mesh);
  }
  if (a.parts.size() != b.parts.size() || a.after != b.after) return false;
  if (a.parts.size() == 1) {
    const DimPart &x = a.parts.front(), &y = b.parts.front();
    return x.axes == y.axes && x.reversed == y.reversed &&
           uneven_count(a, mesh) == uneven_count(b, mesh);
  }
  std::int64_t all_a = 0, all_b = 0;
  for (std::size_t p = 0; p < a.parts.size(); ++p) {
    all_a += a.parts[p].count * a.parts[p].unit;
    all_b += b.parts[p].count * b.parts[p].unit;
  }
  if ((all_a == 0) != (all_b == 0)) return false;
  for (std::size_t p = 0; p < a.parts.size(); ++p) {
    const DimPart& x = a.parts[p];
    const DimPart& y = b.parts[p];
    if (x.axes != y.axes || x.reversed != y.reversed) return false;
    if (x.count * x.unit * all_b != y.count * y.unit * all_a) return false;
  }
  return true;
}

}  // namespace trainyard
