#include "engine/exec/work_table.h"

#include <tuple>
#include <utility>

#include "engine/base/sort_unique.h"
#include "engine/exec/op_work.h"
#include "engine/program/attended_pairs.h"
#include "engine/program/rank_places.h"
#include "engine/program/replica_samples.h"

namespace trainyard {

namespace {

/// What ops that work alike have alike: attributes, part, and queries and keys.
using Likeness = std::tuple<AttrId, OpPart, SpecId, std::vector<std::int64_t>>;

Likeness likeness(const Program& program, const ProgramOp& op) {
  std::vector<std::int64_t> extents;
  for (const Operand& operand : op.reads) {
    for (const Dim& dim : program.values[operand.value].dims) extents.push_back(dim.expected);
  }
  const std::size_t queries = op.part == OpPart::kForward ? 0 : 1;
  return {op.attrs, op.part, program.values[op.reads[queries].value].spec, std::move(extents)};
}

class WorkRows {
 public:
  explicit WorkRows(const Program& program) : program_(program), pairs_(program), work_(program) {}

  WorkTable make(std::span<const double> speeds, const KernelTime& time) {
    find_symbols();
    table_.num_symbols = static_cast<std::int32_t>(ops_.size());
    if (ops_.empty()) return std::move(table_);
    find_rows();
    for (const double speed : speeds) {
      std::vector<Usual> usual;
      for (const ProgramOp* op : ops_) {
        const KernelWork mean = work_(*op);
        usual.push_back({time(mean, speed), mean.flop});
      }
      auto& rows = table_.values[speed];
      for (const std::vector<std::int64_t>& row : rows_) {
        auto& values = rows.emplace_back(row.size());
        for (std::size_t i = 0; i < row.size(); ++i) {
          const std::size_t symbol = i % ops_.size();
          const KernelWork work = work_.with_pairs(*ops_[symbol], row[i]);
          const auto [usually, flop] = usual[symbol];
          if (usually > 0) values[i].time = time(work, speed) / usually;
          if (flop > 0) values[i].flop = work.flop / flop;
        }
      }
    }
    return std::move(table_);
  }

 private:
  void find_symbols() {
    std::map<Likeness, std::int32_t> known;
    for (const Segment& segment : program_.segments) {
      auto& symbols = table_.of_op.emplace_back();
      for (std::size_t k = 0; k < segment.ops.size(); ++k) {
        const ProgramOp& op = segment.ops[k];
        if (!binds_work(op.kind, program_.attrs[op.attrs])) continue;
        symbols.resize(segment.ops.size(), -1);
        const auto [it, fresh] =
            known.try_emplace(likeness(program_, op), static_cast<std::int32_t>(ops_.size()));
        if (fresh) ops_.push_back(&op);
        symbols[k] = it->second;
      }
    }
  }

  /// Pairs of all symbols in all microbatches, of every rank; equal ones once.
  void find_rows() {
    std::map<std::vector<std::int32_t>, std::int32_t> by_place;
    std::map<std::vector<std::int64_t>, std::int32_t> by_pairs;
    std::vector<AxisId> axes;
    for (const ProgramOp* op : ops_) {
      const Axes own = pairs_.axes(*op);
      axes.insert(axes.end(), own.begin(), own.end());
    }
    sort_unique(axes);
    const std::int64_t num_ranks = program_.mesh.num_ranks();
    for (std::int64_t rank = 0; rank < num_ranks; ++rank) {
      const Coordinate at = coordinate_of(program_, rank);
      std::vector<std::int32_t> place;
      for (const AxisId axis : axes) place.push_back(at[axis]);
      const auto [it, fresh] = by_place.try_emplace(std::move(place), 0);
      if (fresh) {
        std::vector<std::int64_t> pairs = pairs_of(at);
        const auto [row, other] =
            by_pairs.try_emplace(std::move(pairs), static_cast<std::int32_t>(rows_.size()));
        if (other) rows_.push_back(row->first);
        it->second = row->second;
      }
      table_.row.push_back(it->second);
    }
  }

  std::vector<std::int64_t> pairs_of(const Coordinate& at) {
    std::vector<std::int64_t> out;
    for (Microbatch mb = 0; mb < program_.num_microbatches; ++mb) {
      for (std::size_t i = 0; i < ops_.size(); ++i) {
        const bool drawn = pairs_.is_drawn(*ops_[i]);
        const bool as_before = mb > 0 && !drawn;
        out.push_back(as_before                        ? out[i]
                      : of_this_size(*ops_[i], at, mb) ? pairs_(*ops_[i], at, mb)
                                                       : 0);
      }
    }
    return out;
  }

  /// Whether the rank has as many samples of microbatch `mb` as the op works on: no other runs it.
  bool of_this_size(const ProgramOp& op, const Coordinate& at, Microbatch mb) const {
    if (!pairs_.is_drawn(op)) return true;
    const ValueId queries = op.reads[op.part == OpPart::kForward ? 0 : 1].value;
    return samples_of_rank(program_, queries, at, mb).size() ==
           program_.values[queries].dims[0].expected;
  }

  struct Usual {
    Seconds time;
    Flop flop;
  };

  const Program& program_;
  AttendedPairs pairs_;
  OpWork work_;
  std::vector<const ProgramOp*> ops_;            // [symbol]: one that has it
  std::vector<std::vector<std::int64_t>> rows_;  // [row][microbatch x symbols + symbol]: pairs
  WorkTable table_;
};

}  // namespace

WorkTable make_work_table(const Program& program, std::span<const double> speeds,
                          const KernelTime& time) {
  return WorkRows(program).make(speeds, time);
}

}  // namespace trainyard
