#include "report/timeline.h"

#include <algorithm>
#include <array>
#include <boost/container/static_vector.hpp>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "engine/exec/op_work.h"
#include "engine/memory/memory_moves.h"
#include "engine/program/pair_members.h"
#include "engine/program/program_words.h"
#include "engine/program/rank_places.h"
#include "report/memory_points.h"
#include "report/name_table.h"

namespace trainyard {

namespace {

/// A call within its rank's list, as rows name it.
std::uint64_t call_key(SegmentId segment, Microbatch mb) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(segment.number())) << 32U |
         static_cast<std::uint32_t>(mb);
}

/// call_key() of the pairs in a list -> the microbatch of the backward, which rows do not say.
std::unordered_map<std::uint64_t, Microbatch> second_microbatches(const Program& program,
                                                                  const RankClass& list) {
  std::unordered_map<std::uint64_t, Microbatch> out;
  for (const Call& call : list.calls) {
    if (program.segments[call.segment].slots > 1)
      out[call_key(call.segment, call.mb[0])] = call.mb[1];
  }
  return out;
}

std::string axes_text(const DeviceMesh& mesh, const Axes& axes) {
  std::string text;
  for (const AxisId axis : axes) text += (text.empty() ? "" : ",") + mesh.axis_name(axis);
  return text;
}

/// An op of a call on its rank's main stream.
struct MainRow {
  std::uint32_t op = 0;  // of the segment
  Ticks start = 0, end = 0;
};

/// TimelineOp's.
struct Amount {
  std::int64_t flop = 0, bytes = 0;
};

class TimelineBuilder {
 public:
  TimelineBuilder(const Program& program, Trace trace, const FixedMemory& fixed)
      : program_(program),
        work_of_(program),
        amounts_(program.segments.size()),
        trace_(std::move(trace)),
        fixed_(fixed),
        names_(out_.names),
        modules_(out_.modules),
        members_(program.segments.size()),
        group_number_(program.groups.size(), -1),
        transfer_number_(program.transfers.size(), {-1, -1}) {}

  Timeline make() {
    for (const MeshAxis& axis : program_.mesh.axes) out_.axes.push_back(axis.name);
    bool any = false;
    for (const RankTrace& rank : trace_.ranks) {
      for (const TraceRow& row : rank.rows) {
        origin_ = any ? std::min(origin_, row.start) : row.start;
        any = true;
      }
    }
    std::vector<std::vector<std::size_t>> ranks_of_list(program_.body.size());
    for (RankTrace& rank : trace_.ranks) {
      if (rank.rows.empty()) continue;
      ranks_of_list[rank.list].push_back(out_.ranks.size());
      add_rank(rank);
      std::vector<TraceRow>().swap(rank.rows);  // there are millions
    }
    add_memory(ranks_of_list);
    return std::move(out_);
  }

 private:
  Ticks ticks(Seconds time) const { return std::llround((time - origin_) * kTicksPerSecond); }

  /// A segment of the Program in the timeline: by slot its members, by op the slot.
  struct Members {
    boost::container::static_vector<std::uint32_t, 2> segment;  // empty: not asked for yet
    std::vector<std::uint8_t> slot;                             // [op]; empty: all 0
  };
  const Members& members(SegmentId id) {
    Members& of = members_[id];
    if (!of.segment.empty()) return of;
    const Segment& s = program_.segments[id];
    for (const SegmentMember& member : members_of(s)) {
      const auto next = static_cast<std::uint32_t>(out_.segments.size());
      const auto [known, is_new] = segment_number_.try_emplace(member.name, next);
      if (is_new)
        out_.segments.push_back({member.name, member.stage, letter(member.phase), s.slots > 0});
      of.segment.push_back(known->second);
    }
    if (s.slots < 2) return of;
    for (const ProgramOp& op : s.ops)
      of.slot.push_back(static_cast<std::uint8_t>(member_of(program_, op)));
    return of;
  }

  std::int16_t group_of(const ProgramOp& op) {
    if (!moves_data(op.kind)) return -1;
    const bool collective = op.group != kNoIndex;
    const bool copy = op.kind == OpKind::kCopy;
    const bool by_host = is_transfer(op.kind) && moved_value(program_, op).space == Space::kHost;
    std::int16_t& number = collective ? group_number_[op.group]
                           : copy     ? copy_number_.try_emplace(op.stream, -1).first->second
                                      : transfer_number_[op.transfer][by_host ? 1 : 0];
    if (number >= 0) return number;
    TimelineGroup group;
    if (copy) {
      group.name = program_words::kStreams[op.stream];
    } else if (collective) {
      const Group& g = program_.groups[op.group];
      group = {g.name, axes_text(program_.mesh, g.axes)};
    } else {
      group.name = group.axes = program_.mesh.axis_name(program_.transfers[op.transfer].axis);
      if (by_host) group.name = "host";
    }
    // Transfers to the next and to the previous stage are of one kind.
    const auto known = std::find(out_.groups.begin(), out_.groups.end(), group);
    number = static_cast<std::int16_t>(known - out_.groups.begin());
    if (known == out_.groups.end()) out_.groups.push_back(group);
    return number;
  }

  /// What each op of the segment computes or moves.
  const std::vector<Amount>& amounts(SegmentId id) {
    std::vector<Amount>& of = amounts_[id];
    if (!of.empty()) return of;
    for (const ProgramOp& op : program_.segments[id].ops) {
      const KernelWork work = work_of_(op);
      const bool multiplies =
          work.cls == KernelClass::kMatmul || work.cls == KernelClass::kConvolution ||
          work.cls == KernelClass::kBatchedMatmul || work.cls == KernelClass::kFlashAttention;
      of.push_back(multiplies ? Amount{std::llround(work.flop), 0}
                              : Amount{0, static_cast<std::int64_t>(work.bytes)});
    }
    return of;
  }

  std::int64_t peer_of(const TimelineRank& rank, const ProgramOp& op) const {
    if (op.transfer == kNoIndex) return -1;
    const auto peer = peer_at(program_, program_.transfers[op.transfer], rank.at);
    return peer ? rank_at(program_, *peer) : -1;
  }

  void add_rank(const RankTrace& from) {
    TimelineRank& rank = out_.ranks.emplace_back();
    rank.rank = from.rank;
    rank.multiplicity = from.multiplicity;
    rank.pipeline_rank = pipeline_rank_of(program_.body[from.list].ranks, program_.mesh);
    rank.at = coordinate_of(program_, from.rank);
    // By call_key(), of each member.
    std::unordered_map<std::uint64_t, std::array<std::int32_t, 2>> calls;
    const auto second_mb = second_microbatches(program_, program_.body[from.list]);
    auto& main = main_rows_.emplace_back();
    rank.ops.reserve(from.rows.size());
    for (const TraceRow& row : from.rows) {
      const ProgramOp& op = program_.segments[row.segment].ops[row.op];
      TimelineOp one;
      one.issued = ticks(row.issued);
      one.ready = ticks(row.ready);
      one.start = ticks(row.start);
      one.end = ticks(row.end);
      if (one.end <= one.start) continue;
      const std::uint64_t key = call_key(row.segment, row.mb);
      const Members& of = members(row.segment);
      const std::size_t slot = of.slot.empty() ? 0 : of.slot[row.op];
      std::array<std::int32_t, 2>& call = calls.try_emplace(key, std::array{-1, -1}).first->second;
      if (call[slot] < 0) {
        call[slot] = static_cast<std::int32_t>(rank.calls.size());
        rank.calls.push_back({of.segment[slot], slot == 0 ? row.mb : second_mb.at(key)});
      }
      one.call = static_cast<std::uint32_t>(call[slot]);
      one.name = names_.number(op_name(op.kind, op.part));
      one.module = modules_.number(program_.modules[op.module]);
      one.stream = op.stream;
      one.group = group_of(op);
      one.peer = peer_of(rank, op);
      const Amount& amount = amounts(row.segment)[row.op];
      one.flop = amount.flop;
      one.bytes = amount.bytes;
      rank.ops.push_back(one);
      if (op.stream != StreamId::kMain) continue;
      main[key].push_back({static_cast<std::uint32_t>(row.op), one.start, one.end});
    }
    for (const auto& [key, call] : calls) {
      if (call[0] < 0 || call[1] < 0) continue;
      rank.calls[call[0]].with = call[1];
      rank.calls[call[1]].with = call[0];
    }
  }

  void add_memory(const std::vector<std::vector<std::size_t>>& ranks_of_list) {
    std::vector<Ticks> now(out_.ranks.size(), 0);
    follow_memory_moves(program_, fixed_,
                        [&](std::size_t list, const MemoryStep& step, const CallMoves& moves) {
                          for (const std::size_t r : ranks_of_list[list])
                            add_moves(r, step, moves, now[r]);
                        });
    const Ticks end = out_.end();
    for (TimelineRank& rank : out_.ranks) {
      std::vector<MemoryPoint> kept = thinned(rank.memory, kMaxMemoryPoints, end);
      rank.memory_left_out = std::ssize(rank.memory) - std::ssize(kept);
      rank.memory = std::move(kept);
    }
  }

  /// Puts what the call does to memory at the times of its ops on main; what other ops do, where
  /// main has got to, `now`.
  void add_moves(std::size_t r, const MemoryStep& step, const CallMoves& call, Ticks& now) {
    static const std::vector<MainRow> kNone;
    const auto found = main_rows_[r].find(call_key(step.segment, step.mb[0]));
    const std::vector<MainRow>& rows = found == main_rows_[r].end() ? kNone : found->second;
    auto row = rows.begin();
    if (row != rows.end()) now = std::max(now, row->start);
    add_point(r, now, call.found);
    for (const MemoryMove& move : call.moves) {
      for (; row != rows.end() && row->op < move.op; ++row) now = std::max(now, row->end);
      if (row != rows.end() && row->op == move.op) now = std::max(now, row->start);
      MemoryParts bytes = call.found;
      for (const MemoryClass of : bytes.keys()) bytes[of] += move.bytes[of];
      add_point(r, now, bytes);
    }
    for (; row != rows.end(); ++row) now = std::max(now, row->end);
    add_point(r, now, step.after);
  }

  /// The last of points at one time that grow.
  void add_point(std::size_t r, Ticks at, const MemoryParts& bytes) {
    std::vector<MemoryPoint>& points = out_.ranks[r].memory;
    while (!points.empty() && points.back().at == at && sum(points.back().bytes) <= sum(bytes))
      points.pop_back();
    if (!points.empty() && points.back().bytes == bytes) return;
    points.push_back({at, bytes});
  }

  const Program& program_;
  OpWork work_of_;
  Indexed<SegmentId, std::vector<Amount>> amounts_;  // empty: not asked for yet
  Trace trace_;
  FixedMemory fixed_;
  Timeline out_;
  NameTable names_, modules_;
  Indexed<SegmentId, Members> members_;
  std::unordered_map<std::string, std::uint32_t> segment_number_;  // by name
  std::map<StreamId, std::int16_t> copy_number_;                   // of copies, by their stream
  Indexed<GroupId, std::int16_t> group_number_;
  Indexed<TransferId, std::array<std::int16_t, 2>> transfer_number_;                // [by host]
  std::vector<std::unordered_map<std::uint64_t, std::vector<MainRow>>> main_rows_;  // [rank][call]
  Seconds origin_ = 0;
};

}  // namespace

Ticks Timeline::end() const {
  Ticks latest = 0;
  for (const TimelineRank& rank : ranks) {
    for (const TimelineOp& op : rank.ops) latest = std::max(latest, op.end);
  }
  return latest;
}

std::string call_name(const TimelineSegment& segment, Microbatch mb) {
  return mb >= 0 ? segment.name + std::to_string(mb) : segment.name;
}

Timeline make_timeline(const Program& program, Trace trace, const FixedMemory& fixed) {
  return TimelineBuilder(program, std::move(trace), fixed).make();
}

}  // namespace trainyard
