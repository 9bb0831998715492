#include "engine/program/communication_order.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/program/violation.h"

namespace trainyard {

namespace {

void check_membership(const Program& program, std::int32_t rank,
                      const std::vector<Communication>& list) {
  for (const Communication& communication : list) {
    if (!is_collective(communication.op->kind)) continue;
    const Group& group = program.groups[communication.op->group];
    const auto& members = group.members;
    if (members.empty() || std::find(members.begin(), members.end(), rank) != members.end())
      continue;
    fail(class_name(program.mesh, ranks_at(program.mesh, rank)), ": ",
         program.segments[communication.segment].name, ": is not in group ", group.name);
  }
}

/// Lets every rank go on for as long as those with whom it communicates next have come there, too.
class CommunicationOrder {
 public:
  CommunicationOrder(const Program& program, const Communications& lists)
      : program_(program),
        lists_(lists),
        ranks_(static_cast<std::int32_t>(lists.size())),
        next_(lists.size(), 0),
        waiting_(program.groups.size()) {}

  void run() {
    // A rank is looked at once for each communication that comes to the head of its list: whoever
    // comes last finds the others there.
    Indexed<std::int32_t, std::size_t> num_seen(lists_.size(), 0);
    for (std::int32_t rank = ranks_; rank-- > 0;) to_look_at_.push_back(rank);
    while (!to_look_at_.empty()) {
      const std::int32_t rank = to_look_at_.back();
      to_look_at_.pop_back();
      const Communication* mine = head(rank);
      std::size_t& seen = num_seen[rank];
      if (mine == nullptr || seen > next_[rank]) continue;
      seen = next_[rank] + 1;
      if (is_transfer(mine->op->kind))
        look_at_transfer(rank, *mine);
      else
        look_at_collective(rank, *mine);
    }
    check_all_ended();
  }

 private:
  const Communication* head(std::int32_t rank) const {
    const auto& list = lists_[rank];
    const std::size_t at = next_[rank];
    return at < list.size() ? &list[at] : nullptr;
  }

  void let_go(std::int32_t rank) {
    ++next_[rank];
    to_look_at_.push_back(rank);
  }

  void look_at_transfer(std::int32_t rank, const Communication& mine) {
    const std::int32_t other = peer(*mine.op, rank);
    const Communication* theirs = head(other);
    if (theirs == nullptr || !matches(mine, *theirs, rank, other)) return;
    let_go(rank);
    if (other != rank) let_go(other);
  }

  void look_at_collective(std::int32_t rank, const Communication& mine) {
    const auto& members = program_.groups[mine.op->group].members;
    auto& there = waiting_[mine.op->group];
    there.push_back(rank);
    if (there.size() < (members.empty() ? lists_.size() : members.size())) return;
    const bool alike = std::all_of(there.begin(), there.end(), [&](std::int32_t other) {
      return matches(mine, *head(other), rank, other);
    });
    if (!alike) return;
    const auto all = std::exchange(there, {});
    for (const std::int32_t member : all) let_go(member);
  }

  std::int32_t peer(const ProgramOp& op, std::int32_t rank) const {
    const std::int32_t offset = program_.transfers[op.transfer].offset;
    return (rank + offset % ranks_ + ranks_) % ranks_;
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
    if (peer(*b.op, other) != rank) return false;
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
      stuck += class_name(program_.mesh, ranks_at(program_.mesh, rank)) + " is stuck at " +
               program_.segments[at->segment].name + (at->mb >= 0 ? std::to_string(at->mb) : "");
    }
    if (!stuck.empty()) fail("no order of communication suits every rank: ", stuck);
  }

  const Program& program_;
  const Communications& lists_;
  std::int32_t ranks_;
  Indexed<std::int32_t, std::size_t> next_;  // [pipeline rank]: index into its list
  Indexed<GroupId, std::vector<std::int32_t>> waiting_;
  std::vector<std::int32_t> to_look_at_;
};

}  // namespace

bool crosses_ranks(const Program& program, const ProgramOp& op) {
  if (is_transfer(op.kind)) return true;
  if (!is_collective(op.kind)) return false;
  const Group& group = program.groups[op.group];
  return std::find(group.axes.begin(), group.axes.end(), stage_axis(program.mesh)) !=
         group.axes.end();
}

void check_communication_order(const Program& program, const Communications& lists) {
  for (const std::int32_t rank : lists.keys()) check_membership(program, rank, lists[rank]);
  CommunicationOrder(program, lists).run();
}

}  // namespace trainyard
