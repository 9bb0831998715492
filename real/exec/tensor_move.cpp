#include "real/exec/tensor_move.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "engine/base/error.h"
#include "engine/sharding/mesh_slice.h"
#include "engine/sharding/moved_axes.h"
#include "engine/sharding/spec_boxes.h"
#include "real/parameters/packed_rows.h"
#include "real/parameters/rank_coordinates.h"

namespace trainyard {

namespace {

using Ranges = std::vector<IndexRanges>;  // [dim]: global indices in local order

/// Elements of `a` that `b` has too, or that it has not, in the order of `a`.
IndexRanges both(const IndexRanges& a, const IndexRanges& b) {
  IndexRanges out;
  for (const IndexRange& x : a) {
    IndexRanges here;
    for (const IndexRange& y : b) {
      const IndexRange overlap{std::max(x.begin, y.begin), std::min(x.end, y.end)};
      if (overlap.begin < overlap.end) here.push_back(overlap);
    }
    std::sort(here.begin(), here.end(), [](const IndexRange& one, const IndexRange& other) {
      return one.begin < other.begin;
    });
    out.insert(out.end(), here.begin(), here.end());
  }
  return out;
}

IndexRanges without(const IndexRanges& a, const IndexRanges& b) {
  IndexRanges out;
  for (const IndexRange& x : a) {
    std::int64_t begin = x.begin;
    for (const IndexRange& y : both({x}, b)) {
      if (begin < y.begin) out.push_back({begin, y.begin});
      begin = y.end;
    }
    if (begin < x.end) out.push_back({begin, x.end});
  }
  return out;
}

std::int64_t size_of(const IndexRanges& ranges) {
  return std::accumulate(
      ranges.begin(), ranges.end(), std::int64_t{0},
      [](std::int64_t sum, const IndexRange& range) { return sum + range.size(); });
}

/// Where those of `only` that both lists have stand in each.
MovedRanges runs_between(const IndexRanges& from, const IndexRanges& to, const IndexRanges& only) {
  MovedRanges out;
  std::int64_t at_from = 0;
  for (const IndexRange& x : from) {
    std::int64_t at_to = 0;
    for (const IndexRange& y : to) {
      for (const IndexRange& z : both(both({x}, {y}), only)) {
        const MovedRange run{at_from + z.begin - x.begin, at_to + z.begin - y.begin, z.size()};
        const bool joins = !out.empty() && out.back().from + out.back().size == run.from &&
                           out.back().to + out.back().size == run.to;
        if (joins) {
          out.back().size += run.size;
        } else {
          out.push_back(run);
        }
      }
      at_to += y.size();
    }
    at_from += x.size();
  }
  return out;
}

MovedBlock block_of(const Ranges& from, const Ranges& to, const Ranges& only) {
  MovedBlock block;
  for (std::size_t d = 0; d < from.size(); ++d) {
    block.dims.push_back(runs_between(from[d], to[d], only[d]));
    block.shape.push_back(size_of(both(both(from[d], to[d]), only[d])));
  }
  return block;
}

template <typename Of>
Ranges each_dim(const Ranges& a, const Ranges& b, const Of& of) {
  Ranges out;
  for (std::size_t d = 0; d < a.size(); ++d) out.push_back(a[d] == b[d] ? a[d] : of(a[d], b[d]));
  return out;
}
/// What a member has and another has not; dims in which they have the same are whole.
Ranges exclusive(const Ranges& own, const Ranges& other) { return each_dim(own, other, without); }
/// What two members have.
Ranges shared(const Ranges& own, const Ranges& other) { return each_dim(own, other, both); }

/// Whether the block is all of one tensor, as one run from `begin` on along one dim of the other.
bool is_run(const MovedBlock& block, int dim, std::int64_t begin, bool of_sender) {
  for (std::size_t d = 0; d < block.dims.size(); ++d) {
    const std::int64_t at = static_cast<int>(d) == dim ? begin : 0;
    if (block.dims[d].size() != 1) return false;
    const MovedRange& run = block.dims[d][0];
    if ((of_sender ? run.from : run.to) != at || (of_sender ? run.to : run.from) != 0) return false;
  }
  return true;
}

class MovePlanner {
 public:
  MovePlanner(const Program& program, const ProgramOp& op, const Coordinate& at)
      : op_(op),
        dim_(program.attrs[op.attrs].dim) {
    const Value& read = program.values[op.reads[0].value];
    const TensorSpec from = spec_of(program, read);
    const TensorSpec to = spec_of(program, program.values[op.writes[0].value]);
    const DeviceMesh slice = mesh_slice(program.mesh, at);
    const Extents extents = global_extents(from, read.dims, slice);
    const Axes axes = op.group == kNoIndex ? moved_axes(from, to) : program.groups[op.group].axes;
    Coordinate member = at;
    for (std::int64_t i = 0; i < group_size(slice, axes); ++i) {
      std::int64_t left = i;
      for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
        member[*axis] = static_cast<std::int32_t>(left % slice.size(*axis));
        left /= slice.size(*axis);
      }
      if (member == at) own_ = from_.size();
      from_.push_back(ranges(from, extents, slice, member));
      to_.push_back(ranges(to, extents, slice, member));
    }
  }

  TensorMove run() {
    switch (op_.kind) {
      case OpKind::kSlice:
      case OpKind::kPad: keep(from_[own_]); break;
      case OpKind::kKeepOnOne: plan_keep(); break;
      case OpKind::kAllReduce: plan_all_reduce(); break;
      case OpKind::kAllGather: plan_all_gather(); break;
      case OpKind::kReduceScatter: plan_reduce_scatter(); break;
      default: plan_all_to_all(); break;
    }
    move_.zeros = op_.kind == OpKind::kPad || op_.kind == OpKind::kKeepOnOne;
    if (!move_.zeros && !move_.plain) check_all_is_made();
    return std::move(move_);
  }

 private:
  static Ranges ranges(const TensorSpec& spec, const Extents& extents, const DeviceMesh& mesh,
                       const Coordinate& member) {
    auto out = local_ranges(spec, extents, mesh, member);
    check(out.has_value(), "values that one rank holds move by broadcasts");
    return std::move(*out);
  }

  std::size_t behind(std::size_t member) const { return (member + 1) % from_.size(); }
  Ranges none() const { return Ranges(from_[own_].size()); }
  void keep(const Ranges& only) { move_.kept = block_of(from_[own_], to_[own_], only); }

  /// What the axes split is one rank's already.
  void plan_keep() {
    const Ranges& other = from_[behind(own_)];
    keep(own_ == 0 ? from_[own_] : from_[own_] == other ? none() : exclusive(from_[own_], other));
  }

  void plan_all_reduce() {
    const Ranges &own = from_[own_], &other = from_[behind(own_)];
    move_.plain = own == other;
    const Ranges summed = shared(own, other);
    move_.sent.push_back(block_of(own, summed, summed));
    move_.received.push_back(block_of(summed, to_[own_], summed));
    keep(move_.plain ? none() : exclusive(own, other));
  }

  void plan_all_gather() {
    move_.plain = true;
    keep(from_[own_]);
    std::vector<std::int64_t> brought;
    for (std::size_t m = 0; m < from_.size(); ++m) {
      const Ranges only = exclusive(from_[m], from_[behind(m)]);
      const MovedBlock block = block_of(only, to_[own_], only);
      brought.push_back(block.elements());
      move_.plain =
          move_.plain && only == from_[m] && is_run(block, dim_, begin_of(m, from_[m]), false);
      if (m == own_) move_.sent.push_back(block_of(from_[m], only, only));
      move_.received.push_back(m == own_ ? block_of(none(), to_[own_], none()) : block);
    }
    const bool alike = std::equal(brought.begin() + 1, brought.end(), brought.begin());
    if (alike) return;
    move_.counts.sent.assign(brought.size(), brought[own_]);
    move_.counts.received = brought;
    move_.counts.sent[own_] = move_.counts.received[own_] = 0;
  }

  void plan_reduce_scatter() {
    move_.plain = true;
    for (std::size_t m = 0; m < to_.size(); ++m) {
      const Ranges only = exclusive(to_[m], to_[behind(m)]);
      move_.sent.push_back(block_of(from_[own_], only, only));
      move_.plain =
          move_.plain && only == to_[m] && is_run(move_.sent[m], dim_, begin_of(m, to_[m]), true);
      if (m == own_) move_.received.push_back(block_of(only, to_[own_], only));
    }
    const Ranges summands = shared(to_[own_], to_[behind(own_)]);
    keep(summands);
    const std::int64_t own = move_.received[0].elements();
    const bool alike =
        std::all_of(move_.sent.begin(), move_.sent.end(),
                    [&](const MovedBlock& block) { return block.elements() == own; });
    if (alike) return;
    for (const MovedBlock& block : move_.sent) {
      move_.counts.sent.push_back(block.elements());
      move_.counts.received.push_back(own);
    }
  }

  void plan_all_to_all() {
    for (std::size_t m = 0; m < from_.size(); ++m) {
      const Ranges given = each_dim(from_[own_], to_[m], both);
      const Ranges got = each_dim(from_[m], to_[own_], both);
      move_.sent.push_back(block_of(from_[own_], given, given));
      move_.received.push_back(block_of(got, to_[own_], got));
      move_.counts.sent.push_back(move_.sent[m].elements());
      move_.counts.received.push_back(move_.received[m].elements());
    }
    keep(none());
  }

  /// Where the member's part begins along the op's dim, of parts by member.
  std::int64_t begin_of(std::size_t member, const Ranges& part) const {
    return static_cast<std::int64_t>(member) * size_of(part.begin()[dim_]);
  }

  void check_all_is_made() const {
    std::int64_t made = move_.kept.elements();
    for (const MovedBlock& block : move_.received) made += block.elements();
    std::int64_t wanted = 1;
    for (const IndexRanges& dim : to_[own_]) wanted *= size_of(dim);
    if (made == wanted) return;
    throw BackendError(op_name(op_.kind, op_.part) + " finds " + std::to_string(made) + " of the " +
                       std::to_string(wanted) + " elements that it makes");
  }

  const ProgramOp& op_;
  int dim_;
  std::size_t own_ = 0;
  std::vector<Ranges> from_, to_;  // [member]
  TensorMove move_;
};

/// Between a bucket and its shards, one behind the other.
TensorMove plan_reorder(const Program& program, const ProgramOp& op, const Coordinate& at) {
  const bool out = op.kind == OpKind::kCopyOut;
  const ValueId bucket = storage_root(program, (out ? op.writes : op.reads)[0].value);
  const AxisId stages = stage_axis(program.mesh);
  const std::int64_t ranks =
      group_size(program.mesh, program.groups[op.group].axes, stages == kNoAxis ? 0 : at[stages]);
  TensorMove move;
  MovedRanges& runs = move.kept.dims.emplace_back();
  for (const PackedRows& run : packed_runs(program, bucket, ranks))
    runs.push_back(out ? MovedRange{run.packed, run.in_bucket, run.size}
                       : MovedRange{run.in_bucket, run.packed, run.size});
  move.kept.shape = {num_elements(program.values[bucket].dims)};
  return move;
}

}  // namespace

std::int64_t MovedBlock::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

TensorMove plan_tensor_move(const Program& program, const ProgramOp& op, const Coordinate& at) {
  if (op.kind == OpKind::kCopyIn || op.kind == OpKind::kCopyOut)
    return plan_reorder(program, op, at);
  return MovePlanner(program, op, at).run();
}

}  // namespace trainyard
