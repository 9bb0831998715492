#include "engine/program/communication_order.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "engine/program/rank_places.h"
#include "engine/program/violation.h"
#include "engine/sharding/replica_axes.h"

namespace trainyard {

namespace {

void check_membership(const Program& program, const RankSet& ranks,
                      const std::vector<Communication>& list) {
  for (const Communication& communication : list) {
    if (!is_collective(communication.op->kind)) continue;
    const Group& group = program.groups[communication.op->group];
    const auto& members = group.members;
    const std::int32_t rank = pipeline_rank_of(ranks, program.mesh);
    if (members.empty() || std::find(members.begin(), members.end(), rank) != members.end())
      continue;
    fail(class_name(program.mesh, ranks), ": ", program.segments[communication.segment].name,
         ": is not in group ", group.name);
  }
}

/// The axes along which ranks run lists of their own: the stages, and those of unlike replicas.
Axes outline_axes(const DeviceMesh& mesh) {
  Axes axes = replica_axes(mesh);
  if (const AxisId stages = stage_axis(mesh); stages != kNoAxis) axes.insert(axes.begin(), stages);
  return axes;
}

DeviceMesh outline_of(const DeviceMesh& mesh) {
  DeviceMesh outline;
  for (const AxisId axis : outline_axes(mesh)) outline.axes.push_back(mesh.axes[axis]);
  return outline;
}

/// At most one for each stream of transfers.
using Heads = boost::container::small_vector<std::size_t, 4>;

/// Lets every rank go on for as long as those with whom it communicates next have come there, too.
/// Ranks that differ along other axes than the outline's do the same: one stands for them.
class CommunicationOrder {
 public:
  CommunicationOrder(const Program& program, const Communications& lists)
      : program_(program),
        lists_(lists),
        outline_(outline_of(program.mesh)),
        axes_(outline_axes(program.mesh)),
        ranks_(static_cast<std::int32_t>(outline_.num_ranks())),
        next_(ranks_, 0),
        ended_(ranks_),
        waiting_(program.groups.size()) {
    for (std::int32_t rank = 0; rank < ranks_; ++rank) list_.push_back(find_list(rank));
  }

  void run() {
    // A rank is looked at once for each communication that comes to the head of its list: whoever
    // comes last finds the others there.
    Indexed<std::int32_t, std::size_t> num_seen(ranks_, 0);
    for (std::int32_t rank = ranks_; rank-- > 0;) to_look_at_.push_back(rank);
    while (!to_look_at_.empty()) {
      const std::int32_t rank = to_look_at_.back();
      to_look_at_.pop_back();
      const Communication* mine = head(rank);
      std::size_t& seen = num_seen[rank];
      if (mine == nullptr || (mine->batch == 0 && seen > next_[rank])) continue;
      seen = next_[rank] + 1;
      if (is_transfer(mine->op->kind))
        look_at_transfers(rank);
      else
        look_at_collective(rank, *mine);
    }
    check_all_ended();
  }

 private:
  /// Where `rank` of the outline lies on the mesh, first on the axes that the outline has not.
  Coordinate place(std::int32_t rank) const {
    Coordinate at = uniform_coordinate(program_.mesh, 0);
    const Coordinate within = coordinate_of(outline_, rank);
    for (std::size_t i = 0; i < axes_.size(); ++i) at[axes_[i]] = within[i];
    return at;
  }
  std::int32_t rank_of(const Coordinate& at) const {
    Coordinate within;
    for (const AxisId axis : axes_) within.push_back(at[axis]);
    return static_cast<std::int32_t>(rank_at(outline_, within));
  }
  std::int32_t find_list(std::int32_t rank) const {
    return static_cast<std::int32_t>(list_at(program_, place(rank)));
  }
  std::string name(std::int32_t rank) const {
    return class_name(program_.mesh, program_.body[list_[rank]].ranks);
  }

  const Communication* head(std::int32_t rank) const {
    const auto& list = lists_[list_[rank]];
    const std::size_t at = next_[rank];
    return at < list.size() ? &list[at] : nullptr;
  }

  /// What of the head's batch may end next, indices into the list: the first of each stream, up to
  /// what the host waits for. Of no batch: the head alone.
  Heads heads(std::int32_t rank) const {
    const auto& list = lists_[list_[rank]];
    Heads out;
    StreamSet taken = 0;
    for (std::size_t at = next_[rank]; at < list.size(); ++at) {
      if (has_ended(rank, at)) continue;
      const Communication& one = list[at];
      if (one.batch != list[next_[rank]].batch || (one.batch == 0 && !out.empty())) break;
      if ((taken & stream_bit(one.op->stream)) == 0) out.push_back(at);
      taken |= stream_bit(one.op->stream);
      if (one.op->host_sync) break;
    }
    return out;
  }

  bool has_ended(std::int32_t rank, std::size_t at) const {
    const auto& ended = ended_[rank];
    return std::find(ended.begin(), ended.end(), at) != ended.end();
  }

  void let_go(std::int32_t rank, std::size_t at) {
    ended_[rank].push_back(at);
    for (auto& ended = ended_[rank]; has_ended(rank, next_[rank]); ++next_[rank])
      ended.erase(std::find(ended.begin(), ended.end(), next_[rank]));
    to_look_at_.push_back(rank);
  }

  /// Transfers of `rank` whose other ends have come as well.
  void look_at_transfers(std::int32_t rank) {
    for (const std::size_t at : heads(rank)) {
      const Communication& mine = lists_[list_[rank]][at];
      const std::optional<std::int32_t> other = peer(*mine.op, rank);
      if (!other) {
        fail(name(rank), ": ", program_.segments[mine.segment].name, ": transfer ",
             std::to_string(mine.op->transfer.number()), " has no peer for one of these ranks");
      }
      for (const std::size_t its : heads(*other)) {
        if (!matches(mine, lists_[list_[*other]][its], rank, *other)) continue;
        let_go(rank, at);
        if (*other != rank) let_go(*other, its);
        break;
      }
    }
  }

  /// How many ranks of the outline meet in a collective of `rank`.
  std::int32_t num_members(const Group& group, std::int32_t pipeline_rank) const {
    const AxisSet own = set_of(axes_);
    bool of_all = false;
    for (const AxisId axis : group.axes) of_all = of_all || program_.mesh.axes[axis].stages;
    const auto at = [&](std::int32_t p) {
      std::int32_t count = 1;
      for (const AxisId axis : group.axes) {
        if (has(own, axis) && !program_.mesh.axes[axis].stages)
          count *= program_.mesh.size(axis, p);
      }
      return count;
    };
    if (!of_all) return at(pipeline_rank);
    std::int32_t count = 0;
    for (const std::int32_t p : group.members) count += at(p);
    for (std::int32_t p = 0; group.members.empty() && p < num_pipeline_ranks(program_.mesh); ++p)
      count += at(p);
    return count;
  }

  /// The one, of the ranks that meet in a collective, that all of them agree on.
  std::int32_t meeting_of(const Group& group, Coordinate at) const {
    for (const AxisId axis : group.axes) at[axis] = 0;
    return rank_of(at);
  }

  void look_at_collective(std::int32_t rank, const Communication& mine) {
    const Group& group = program_.groups[mine.op->group];
    const Coordinate at = place(rank);
    auto& there = waiting_[mine.op->group][meeting_of(group, at)];
    there.push_back(rank);
    const AxisId stages = stage_axis(program_.mesh);
    if (std::ssize(there) < num_members(group, stages == kNoAxis ? 0 : at[stages])) return;
    const bool alike = std::all_of(there.begin(), there.end(), [&](std::int32_t other) {
      return matches(mine, *head(other), rank, other);
    });
    if (!alike) return;
    const auto all = std::exchange(there, {});
    for (const std::int32_t member : all) let_go(member, next_[member]);
  }

  std::optional<std::int32_t> peer(const ProgramOp& op, std::int32_t rank) const {
    const Transfer& transfer = program_.transfers[op.transfer];
    if (transfer.pairs.empty()) return (rank + transfer.offset % ranks_ + ranks_) % ranks_;
    const auto at = peer_at(program_, transfer, place(rank));
    return at ? std::optional(rank_of(*at)) : std::nullopt;
  }

  Bytes bytes(const ProgramOp& op) const { return size_in_bytes(moved_value(program_, op)); }
  Space space(const ProgramOp& op) const { return moved_value(program_, op).space; }

  bool matches(const Communication& a, const Communication& b, std::int32_t rank,
               std::int32_t other) const {
    if (rank == other) return true;
    if (a.mb != b.mb) return false;
    if (!is_transfer(a.op->kind)) {
      return a.op->kind == b.op->kind && a.op->group == b.op->group &&
             a.op->stream == b.op->stream && bytes(*a.op) == bytes(*b.op);
    }
    if (transfer_stream(a.op->stream) != transfer_stream(b.op->stream)) return false;
    const auto opposite = a.op->kind == OpKind::kSend ? OpKind::kRecv : OpKind::kSend;
    if (b.op->kind != opposite) return false;
    if (peer(*b.op, other) != std::optional(rank)) return false;
    if (space(*a.op) != space(*b.op)) fail_to_agree(a, b, "way");
    if (bytes(*a.op) != bytes(*b.op)) fail_to_agree(a, b, "bytes");
    return true;
  }

  [[noreturn]] void fail_to_agree(const Communication& a, const Communication& b,
                                  const char* on) const {
    fail(program_.segments[a.segment].name, " and ", program_.segments[b.segment].name,
         " do not agree on the ", on, " of their transfer");
  }

  void check_all_ended() const {
    std::string stuck;
    for (std::int32_t rank = 0; rank < ranks_; ++rank) {
      const Communication* at = head(rank);
      if (at == nullptr) continue;
      if (!stuck.empty()) stuck += "; ";
      stuck += name(rank) + " is stuck at " + program_.segments[at->segment].name +
               (at->mb >= 0 ? std::to_string(at->mb) : "");
    }
    if (!stuck.empty()) fail("no order of communication suits every rank: ", stuck);
  }

  const Program& program_;
  const Communications& lists_;
  DeviceMesh outline_;
  Axes axes_;                                 // of the mesh, that the outline has
  std::int32_t ranks_;                        // of the outline
  Indexed<std::int32_t, std::int32_t> list_;  // [rank]
  Indexed<std::int32_t, std::size_t> next_;   // [rank]: index into its list, the first not ended
  Indexed<std::int32_t, std::vector<std::size_t>> ended_;  // [rank]: those behind it, of its batch
  /// Those that have come, by meeting_of().
  Indexed<GroupId, std::map<std::int32_t, std::vector<std::int32_t>>> waiting_;
  std::vector<std::int32_t> to_look_at_;
};

}  // namespace

bool crosses_ranks(const Program& program, const ProgramOp& op) {
  if (is_transfer(op.kind)) return true;
  if (!is_collective(op.kind)) return false;
  return (set_of(program.groups[op.group].axes) & set_of(outline_axes(program.mesh))) != 0;
}

CrossingOps crossing_ops(const Program& program) {
  CrossingOps out(program.segments.size());
  for (const SegmentId s : program.segments.keys()) {
    const auto& ops = program.segments[s].ops;
    for (std::uint32_t k = 0; k < ops.size(); ++k) {
      if (crosses_ranks(program, ops[k])) out[s].push_back(k);
    }
  }
  return out;
}

Communications communications_of(const Program& program, const CrossingOps& crossing) {
  Communications lists;
  for (const RankClass& list : program.body) {
    auto& out = lists.emplace_back();
    std::size_t begin = 0;  // of the calls in a row that only transfer
    std::uint32_t batches = 0;
    const auto end_row = [&] {
      const auto from = out.begin() + static_cast<std::ptrdiff_t>(begin);
      const bool waits =
          std::any_of(from, out.end(), [](const Communication& one) { return one.op->host_sync; });
      if (waits && out.end() - from > 1) {
        ++batches;
        std::for_each(from, out.end(), [&](Communication& one) { one.batch = batches; });
      }
      begin = out.size();
    };
    const auto add = [&](SegmentId id, Microbatch mb, std::uint32_t k) {
      out.push_back({&program.segments[id].ops[k], id, mb});
    };
    for (const Call& call : list.calls) {
      const auto& ops = program.segments[call.segment].ops;
      const auto& own = crossing[call.segment];
      const bool transfers = own.size() == ops.size() && call.inside.empty() &&
                             std::all_of(ops.begin(), ops.end(),
                                         [](const ProgramOp& op) { return is_transfer(op.kind); });
      if (!transfers) end_row();
      auto next = own.begin();
      for (const auto& [before, inside] : call.inside) {
        for (; next != own.end() && *next < before; ++next) add(call.segment, call.mb[0], *next);
        for (const std::uint32_t k : crossing[inside]) add(inside, -1, k);
      }
      for (; next != own.end(); ++next) add(call.segment, call.mb[0], *next);
      if (!transfers) begin = out.size();
    }
    end_row();
  }
  return lists;
}

void check_communication_order(const Program& program, const Communications& lists) {
  for (const std::int32_t list : lists.keys())
    check_membership(program, program.body[list].ranks, lists[list]);
  CommunicationOrder(program, lists).run();
}

bool has_communication_order(const Program& program) {
  try {
    check_communication_order(program, communications_of(program, crossing_ops(program)));
  } catch (const Violation&) {
    return false;
  }
  return true;
}

}  // namespace trainyard
