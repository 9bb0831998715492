#include "engine/sharding/move_cost.h"

#include <algorithm>

#include "engine/sharding/spec_boxes.h"

namespace trainyard {

namespace {

constexpr double kColossalSplit = 100;  // MAP's fixed cost of a local split

double elements_of(const std::optional<std::vector<IndexRanges>>& ranges) {
  if (!ranges) return 0;
  double elements = 1;
  for (const IndexRanges& dim : *ranges) {
    std::int64_t local = 0;
    for (const IndexRange& range : dim) local += range.size();
    elements *= static_cast<double>(local);
  }
  return elements;
}

double common_elements(const std::optional<std::vector<IndexRanges>>& a,
                       const std::optional<std::vector<IndexRanges>>& b) {
  if (!a || !b) return 0;
  double elements = 1;
  for (std::size_t d = 0; d < a->size(); ++d)
    elements *= static_cast<double>(overlap((*a)[d], (*b)[d]));
  return elements;
}

/// Axes along which ranks may hold unlike things.
Axes axes_that_matter(const TensorSpec& a, const TensorSpec& b) {
  AxisSet set = 0;
  for (const TensorSpec* spec : {&a, &b}) {
    for (const DimSplit& dim : spec->dims) set = static_cast<AxisSet>(set | axes_in(dim));
    for (const Held& held : spec->held) set = static_cast<AxisSet>(set | bit(held.axis));
  }
  return axes_of(set);
}

/// The largest value that `count` has on a rank.
template <typename Count>
double on_busiest(const Axes& axes, const DeviceMesh& mesh, Count count) {
  double most = 0;
  const Coordinate zero = uniform_coordinate(mesh, 0);
  for (const std::int64_t rank : group_of(mesh, axes, rank_at(mesh, zero)))
    most = std::max(most, count(coordinate_of(mesh, rank)));
  return most;
}

/// Elements of the busiest rank that none of `axes` splits.
double unsplit_elements(const TensorSpec& spec, const Axes& axes, const Extents& extents,
                        const DeviceMesh& mesh) {
  return on_busiest(axes_that_matter(spec, spec), mesh, [&](const Coordinate& coordinate) {
    const auto held = local_ranges(spec, extents, mesh, coordinate);
    double split = 0;  // elements of parts that one of them splits
    for (const AxisId axis : axes) {
      const auto dim = dim_of(spec, axis);
      if (!dim || !held) continue;
      auto parts = held;
      const auto d = static_cast<std::size_t>(*dim);
      (*parts)[d] = dim_ranges(spec.dims[d], extents[d], mesh, coordinate, bit(axis));
      split = std::max(split, elements_of(parts));
    }
    return elements_of(held) - split;
  });
}

double local_on_busiest(const TensorSpec& spec, const Extents& extents, const DeviceMesh& mesh) {
  return on_busiest(axes_that_matter(spec, spec), mesh, [&](const Coordinate& coordinate) {
    return elements_of(local_ranges(spec, extents, mesh, coordinate));
  });
}

/// device_mesh.py: n ranks, x bytes of the local piece before the op.
double colossal_cost(MoveKind kind, double bytes, double n, const AxisLink& link) {
  const double each = link.beta * (n - 1) / n * bytes;
  switch (kind) {
    case MoveKind::kAllGather: return link.alpha + each + 0.1;
    case MoveKind::kAllReduce: return link.alpha + 2 * each + 0.01;
    case MoveKind::kReduceScatter: return link.alpha + each + 0.001;
    case MoveKind::kAllToAll: return link.alpha + each / n * (n / 2) + 0.001;
    case MoveKind::kSlice: return kColossalSplit;
    default: return 0;
  }
}

}  // namespace

AxisLink link_of(const MoveCosts& costs, const Axes& axes) {
  AxisLink link{0, 0};
  for (const AxisId axis : axes) {
    const AxisLink& one = costs.links[axis];
    link = {std::max(link.alpha, one.alpha), std::max(link.beta, one.beta)};
  }
  return link;
}

double lacking_elements(const TensorSpec& from, const TensorSpec& to, const Extents& extents,
                        const DeviceMesh& mesh) {
  return on_busiest(axes_that_matter(from, to), mesh, [&](const Coordinate& coordinate) {
    const auto before = local_ranges(from, extents, mesh, coordinate);
    const auto after = local_ranges(to, extents, mesh, coordinate);
    return elements_of(after) - common_elements(before, after);
  });
}

double received_elements(MoveKind kind, const Axes& axes, const TensorSpec& from,
                         const TensorSpec& to, const Extents& extents, const DeviceMesh& mesh) {
  const auto ranks = static_cast<double>(group_size(mesh, axes));
  switch (kind) {
    case MoveKind::kAllReduce:
      return 2 * (ranks - 1) / ranks * unsplit_elements(from, axes, extents, mesh);
    case MoveKind::kReduce: return unsplit_elements(from, axes, extents, mesh);
    case MoveKind::kReduceScatter: return lacking_elements(to, from, extents, mesh);
    default: return communicates(kind) ? lacking_elements(from, to, extents, mesh) : 0;
  }
}

double collective_cost(MoveKind kind, double received, double local, std::int64_t ranks,
                       const AxisLink& link, const MoveCosts& costs) {
  if (costs.model == MoveCostModel::kColossal)
    return colossal_cost(kind, local * costs.element_bytes, static_cast<double>(ranks), link);
  return communicates(kind) ? link.alpha + link.beta * received * costs.element_bytes : 0;
}

double backward_cost(const Move& move, double received, double local, double local_after,
                     std::int64_t ranks, const AxisLink& link, const MoveCosts& costs) {
  if (!costs.gradient) return 0;
  const MoveKind kind = backward_kind(move);
  // Colossal-AI charges the all-gather behind a split, and the way back of an all-to-all, on the
  // forward's local bytes.
  const bool as_forward = kind == MoveKind::kAllToAll ||
                          (kind == MoveKind::kAllGather && forward_kind(move) == MoveKind::kSlice);
  return collective_cost(kind, received, as_forward ? local : local_after, ranks, link, costs);
}

MoveCost move_cost(const Move& move, const TensorSpec& before, const TensorSpec& after,
                   const Extents& extents, const DeviceMesh& mesh, const MoveCosts& costs) {
  const AxisLink link = link_of(costs, move.axes);
  const std::int64_t ranks = group_size(mesh, move.axes);
  const bool by_local = costs.model == MoveCostModel::kColossal;
  const double local = by_local ? local_on_busiest(before, extents, mesh) : 0;
  const double local_after = by_local ? local_on_busiest(after, extents, mesh) : 0;
  const MoveKind forward = forward_kind(move);
  const MoveKind backward = backward_kind(move);
  MoveCost cost;
  const double received = received_elements(forward, move.axes, before, after, extents, mesh);
  cost.forward = collective_cost(forward, received, local, ranks, link, costs);
  cost.forward_bytes = received * costs.element_bytes;
  if (!costs.gradient) return cost;
  const double back = received_elements(backward, move.axes, after, before, extents, mesh);
  cost.backward = backward_cost(move, back, local, local_after, ranks, link, costs);
  cost.backward_bytes = back * costs.element_bytes;
  return cost;
}

}  // namespace trainyard
