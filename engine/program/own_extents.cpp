#include "engine/program/own_extents.h"

#include <algorithm>
#include <optional>

#include "engine/program/dim_cuts.h"
#include "engine/program/rank_places.h"
#include "engine/sharding/mesh_slice.h"
#include "engine/sharding/spec_boxes.h"
#include "engine/sharding/uneven_pieces.h"

namespace trainyard {

namespace {

/// The mesh as the rank at a place has it, copied where pipeline ranks have unlike ones alone.
class MeshAt {
 public:
  MeshAt(const DeviceMesh& mesh, const Coordinate& at) : whole_(mesh) {
    if (unlike_axis(mesh) != kNoAxis) slice_ = mesh_slice(mesh, at);
  }
  const DeviceMesh& operator*() const { return slice_ ? *slice_ : whole_; }

 private:
  const DeviceMesh& whole_;
  std::optional<DeviceMesh> slice_;
};

double own_elements(const Program& program, const Value& value, const Coordinate& at) {
  double elements = 1;
  for (const std::int64_t extent : own_extents(program, value, at))
    elements *= static_cast<double>(extent);
  return elements;
}

Extents local_extents(const Value& value) {
  Extents extents;
  for (const Dim& dim : value.dims) extents.push_back(dim.expected);
  return extents;
}

/// The product over dims of what `count` makes of the ranges that a rank has of one value, and
/// another has of another one.
template <typename Count>
double product_over_dims(const Program& program, const Value& one, const Coordinate& at,
                         const Value& other, const Coordinate& other_at, const Count& count) {
  const TensorSpec spec = spec_of(program, one), other_spec = spec_of(program, other);
  const MeshAt mesh(program.mesh, at);
  const Extents whole = whole_extents(spec, local_extents(one), *mesh);
  double elements = 1;
  for (std::size_t d = 0; d < whole.size(); ++d) {
    const auto held = dim_ranges(spec.dims[d], whole[d], *mesh, at);
    const auto held_there = dim_ranges(other_spec.dims[d], whole[d], *mesh, other_at);
    elements *= static_cast<double>(count(held, held_there));
  }
  return elements;
}

/// Elements that a rank has of one value, and another has of another one.
double elements_of_both(const Program& program, const Value& one, const Coordinate& at,
                        const Value& other, const Coordinate& other_at) {
  return product_over_dims(program, one, at, other, other_at,
                           [](const IndexRanges& held, const IndexRanges& held_there) {
                             return overlap(held, held_there);
                           });
}

/// Elements that a rank has, and the next member has not; dims in which they have the same are
/// whole.
double exclusive_elements(const Program& program, const Value& value, const Coordinate& at,
                          const Coordinate& next) {
  return product_over_dims(program, value, at, value, next,
                           [](const IndexRanges& held, const IndexRanges& held_there) {
                             std::int64_t own = held == held_there ? 0 : -overlap(held, held_there);
                             for (const IndexRange& range : held) own += range.size();
                             return own;
                           });
}

/// What an all-reduce adds up: parts that its axes split are one rank's already.
double reduced_elements(const Program& program, const Value& value, const Coordinate& at,
                        const Coordinate& next, AxisSet axes) {
  const TensorSpec spec = spec_of(program, value);
  const bool some_parts = std::any_of(spec.dims.begin(), spec.dims.end(), [&](const DimSplit& dim) {
    return (axes_in(dim) & axes) != 0;
  });
  if (!some_parts) return own_elements(program, value, at);
  return elements_of_both(program, value, at, value, next);
}

}  // namespace

std::vector<std::int64_t> own_extents(const Program& program, const Value& value,
                                      const Coordinate& at) {
  std::vector<std::int64_t> extents;
  for (const Dim& dim : value.dims) extents.push_back(dim.expected);
  if (value.spec == kNoIndex) return extents;
  const TensorSpec& spec = program.specs[value.spec];
  const MeshAt mesh(program.mesh, at);
  for (std::size_t d = 0; d < spec.dims.size(); ++d) {
    const DimSplit& dim = spec.dims[d];
    if (!is_uneven(dim, *mesh)) continue;
    auto& own = extents.begin()[static_cast<std::ptrdiff_t>(d)];
    own = 0;
    for (const IndexRange& range : dim_ranges(dim, counted_extent(dim), *mesh, at))
      own += range.size();
  }
  return extents;
}

double received_bytes(const Program& program, const ProgramOp& op, const Coordinate& at) {
  if (op.kind == OpKind::kSend) return 0;
  const Value& read = program.values[(op.reads.empty() ? op.writes : op.reads)[0].value];
  const Value& written = program.values[(op.writes.empty() ? op.reads : op.writes)[0].value];
  const double element = size_in_bytes(written.dtype);
  const double from = own_elements(program, read, at), to = own_elements(program, written, at);
  if (op.kind == OpKind::kRecv) return element * to;
  const Group& group = program.groups[op.group];
  const std::vector<Coordinate> members = members_at(program, group, at);
  const auto others = static_cast<double>(members.size()) - 1;
  const auto place = std::find(members.begin(), members.end(), at);
  const Coordinate& next = place + 1 == members.end() ? members.front() : *(place + 1);
  const bool flat = program.attrs[op.attrs].dim < 0;
  switch (op.kind) {
    case OpKind::kAllGather: return element * (to - from);
    case OpKind::kReduceScatter:
      return element * (flat ? from - to : others * exclusive_elements(program, written, at, next));
    case OpKind::kAllReduce:
      return element * 2 * others / (others + 1) *
             reduced_elements(program, read, at, next, set_of(group.axes));
    case OpKind::kAllToAll: {
      double elements = 0;
      for (const Coordinate& member : members) {
        if (member != at) elements += elements_of_both(program, written, at, read, member);
      }
      return element * elements;
    }
    default: return element * to;
  }
}

}  // namespace trainyard
