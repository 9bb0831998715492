#include "engine/exec/times/meetings.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "engine/base/error.h"
#include "engine/program/rank_places.h"

namespace trainyard {

namespace {

/// A rank that all members of the op's communication agree on: the sender, or the first of the
/// group.
std::int64_t channel_of(const Program& program, const Lane& lane, bool receives,
                        std::int64_t rank) {
  Coordinate at = coordinate_of(program, rank);
  if (lane.group != kNoIndex) {
    const auto& [name, axes, members] = program.groups[lane.group];
    for (const AxisId axis : axes)
      at[axis] = program.mesh.axes[axis].stages && !members.empty() ? members.front() : 0;
    return rank_at(program, at);
  }
  if (!receives || lane.is_copy()) return rank;
  const auto sender = peer_at(program, reversed({lane.axis, lane.offset, lane.pairs}), at);
  check(sender.has_value(), "who receives has a peer");
  return rank_at(program, *sender);
}

}  // namespace

std::vector<Meeting> find_meetings(const Program& program, const Lanes& lanes,
                                   const std::vector<RankTrace>& ranks) {
  std::vector<Meeting> out;
  // (lane, channel, how many before it) -> index into out
  std::map<std::tuple<LaneId, std::int64_t, std::size_t>, std::size_t> known;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    std::map<std::tuple<LaneId, std::int64_t, bool>, std::size_t> seen;
    for (std::size_t i = 0; i < ranks[r].rows.size(); ++i) {
      const TraceRow& row = ranks[r].rows[i];
      const MessageId message = lanes.of_op[row.segment][row.op];
      if (message == kNoIndex) continue;
      const LaneId lane = lanes.messages[message].lane;
      const ProgramOp& op = program.segments[row.segment].ops[row.op];
      const bool receives = op.kind == OpKind::kRecv;
      const std::int64_t channel = channel_of(program, lanes.lanes[lane], receives, ranks[r].rank);
      const std::size_t turn = seen[{lane, channel, receives}]++;
      const auto [it, fresh] = known.try_emplace({lane, channel, turn}, out.size());
      if (fresh) out.push_back({message, {}});
      out[it->second].members.push_back({r, i});
    }
  }
  return out;
}

Seconds joint_start(const Meeting& meeting, const std::vector<RankTrace>& ranks) {
  Seconds latest = -std::numeric_limits<double>::infinity();
  for (const RowRef& member : meeting.members) {
    latest = std::max(latest, ranks[member.rank].rows[member.row].start);
  }
  return latest;
}

Seconds duration(const Meeting& meeting, const std::vector<RankTrace>& ranks) {
  Seconds end = -std::numeric_limits<double>::infinity();
  for (const RowRef& member : meeting.members) {
    end = std::max(end, ranks[member.rank].rows[member.row].end);
  }
  return std::max(0.0, end - joint_start(meeting, ranks));
}

void join_communication(const Program& program, std::vector<RankTrace>& ranks) {
  for (const Meeting& meeting : find_meetings(program, find_lanes(program), ranks)) {
    const Seconds start = joint_start(meeting, ranks);
    for (const RowRef& member : meeting.members) {
      TraceRow& row = ranks[member.rank].rows[member.row];
      row.ready = row.start;
      row.start = std::clamp(start, row.start, std::max(row.start, row.end));
    }
  }
}

}  // namespace trainyard
