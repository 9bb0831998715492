#include "engine/passes/join_degrees.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "engine/graph/op_table.h"
#include "engine/passes/degree_transfers.h"
#include "engine/passes/pool_slots.h"
#include "engine/passes/split_transfers.h"
#include "engine/passes/taken_parts.h"
#include "engine/program/rank_places.h"

namespace trainyard {

namespace {

/// A segment as ranks of a class run it: none where it does nothing for them, and what makes one
/// value of what it has received in pieces, and which.
struct ClassSegment {
  SegmentId segment = kNoIndex, join = kNoIndex;
  std::vector<ValueId> joined;
  friend auto operator<=>(const ClassSegment&, const ClassSegment&) = default;
};

class DegreesJoiner {
 public:
  explicit DegreesJoiner(const Numbered<const Program*>& of_rank)
      : of_rank_(of_rank),
        widest_(**std::max_element(of_rank.begin(), of_rank.end(),
                                   [](const Program* a, const Program* b) {
                                     return a->mesh.num_ranks() < b->mesh.num_ranks();
                                   })),
        axis_(static_cast<AxisId>(widest_.mesh.num_axes() - 1)) {}

  std::variant<Program, Infeasible> run() {
    lay_out();
    for (const Program* program : of_rank_) {
      if (sources_.contains(program)) continue;
      sources_.emplace(program, TakenParts(*program, ranks_of(program), out_));
    }
    for (const std::int64_t rank : of_rank_.keys()) add_lists(static_cast<std::int32_t>(rank));
    if (const auto& problem = transfers_.problem()) return *problem;
    if (auto problem = find_shared_sums()) return *std::move(problem);
    if (out_.transfers.size() > kMostTransfers)
      return Infeasible{"ranks of unlike degrees take " + std::to_string(out_.transfers.size()) +
                            " kinds of transfers, of which this version has at most " +
                            std::to_string(kMostTransfers),
                        {}};
    std::vector<std::int64_t> ranks;
    for (std::int64_t rank = 0; rank < out_.mesh.num_ranks(); ++rank) ranks.push_back(rank);
    const auto misplaced = place_ranks(out_, std::move(ranks));
    check(!misplaced, "a placement of every rank");
    count_slots(out_);
    renumber_tables(out_);
    return std::move(out_);
  }

 private:
  std::set<std::int32_t> ranks_of(const Program* program) const {
    std::set<std::int32_t> out;
    for (const std::int64_t rank : of_rank_.keys())
      if (of_rank_[rank] == program) out.insert(static_cast<std::int32_t>(rank));
    return out;
  }

  /// The mesh, and the groups as the largest degree's Program has them.
  void lay_out() {
    out_.mesh = widest_.mesh;
    for (const Program* program : of_rank_)
      out_.mesh.axes[axis_].sizes.push_back(transfers_.degree(*program));
    const AxisId stages = stage_axis(out_.mesh);
    for (const GroupId id : widest_.groups.keys()) {
      const Group& group = widest_.groups[id];
      const AxisSet axes = set_of(group.axes);
      if (has(axes, stages) && !has(axes, axis_)) continue;  // of what is exchanged
      out_.groups.push_back(group);
      if (id == widest_.owners) out_.owners = GroupId(out_.groups.size() - 1);
    }
    out_.num_microbatches = widest_.num_microbatches;
    out_.documents = widest_.documents;
  }

  /// What is added up rank by rank has no partner at a pipeline rank of another degree.
  std::optional<Infeasible> find_shared_sums() const {
    const AxisId stages = stage_axis(out_.mesh);
    for (const Segment& segment : out_.segments) {
      for (const ProgramOp& op : segment.ops) {
        if (op.group == kNoIndex) continue;
        const Group& group = out_.groups[op.group];
        const AxisSet axes = set_of(group.axes);
        if (has(axes, stages) && !has(axes, axis_))
          return Infeasible{"group " + group.name +
                                " adds up what pipeline ranks share, rank by rank; ranks of unlike "
                                "tensor degrees hold no like parts of it",
                            {}};
      }
    }
    return std::nullopt;
  }

  // --- lists ---

  void add_lists(std::int32_t rank) {
    const Program& program = *of_rank_[rank];
    std::map<std::vector<ClassSegment>, std::size_t> classes;
    const RankClass& list = program.body.begin()[rank];
    const std::vector<SegmentId> called = segments_of(list);
    for (std::int32_t place = 0; place < transfers_.degree(program); ++place) {
      std::map<SegmentId, ClassSegment> made;
      std::vector<ClassSegment> key;
      for (const SegmentId id : called) {
        made[id] = class_segment(program, rank, id, place);
        key.push_back(made[id]);
      }
      const auto [known, fresh] = classes.try_emplace(std::move(key), out_.body.size());
      if (fresh) {
        RankClass one{ranks_at(out_.mesh, rank), calls_of(list, made)};
        out_.body.push_back(std::move(one));
      }
      out_.body[known->second].ranks.replicas.push_back(place);
    }
  }

  /// In the order of the Program's segments.
  static std::vector<SegmentId> segments_of(const RankClass& list) {
    std::set<SegmentId> out;
    for (const Call& call : list.calls) {
      out.insert(call.segment);
      for (const auto& [before, inside] : call.inside) out.insert(inside);
    }
    return {out.begin(), out.end()};
  }

  /// The list without calls of what does nothing, and with those that join.
  std::vector<Call> calls_of(const RankClass& list,
                             const std::map<SegmentId, ClassSegment>& made) const {
    std::vector<Call> out;
    std::vector<std::uint32_t> now(list.calls.size());  // where the call stands
    std::vector<std::pair<const ClassSegment*, Microbatch>> to_join;
    for (std::size_t i = 0; i < list.calls.size(); ++i) {
      Call call = list.calls[i];
      const ClassSegment& here = made.at(call.segment);
      std::erase_if(to_join, [&](const auto& waiting) {
        const auto& [of, mb] = waiting;
        if (here.segment == kNoIndex || !touches(call, here.segment, *of, mb)) return false;
        Call join;
        join.segment = of->join;
        join.mb = {mb, -1};
        out.push_back(std::move(join));
        return true;
      });
      now[i] = static_cast<std::uint32_t>(out.size());
      if (here.segment == kNoIndex) continue;
      for (CallRef& after : call.after) after.call = now[after.call];
      for (auto& [before, inside] : call.inside) inside = made.at(inside).segment;
      if (here.join != kNoIndex) to_join.emplace_back(&here, call.mb[0]);
      call.segment = here.segment;
      out.push_back(std::move(call));
    }
    return out;
  }

  bool touches(const Call& call, SegmentId id, const ClassSegment& of, Microbatch mb) const {
    for (const ProgramOp& op : out_.segments[id].ops) {
      for (const Operands* operands : {&op.reads, &op.writes, &op.accumulates}) {
        for (const Operand& operand : *operands) {
          const ValueId root = storage_root(out_, operand.value);
          if (std::count(of.joined.begin(), of.joined.end(), root) > 0 &&
              call.mb.begin()[operand.slot] == mb)
            return true;
        }
      }
    }
    return false;
  }

  // --- segments ---

  ClassSegment class_segment(const Program& program, std::int32_t rank, SegmentId id,
                             std::int32_t place) {
    TakenParts& parts = sources_.at(&program);
    const Segment& whole = program.segments[id];
    Segment made = whole;
    made.ops.clear();
    std::vector<ProgramOp> joins;
    std::vector<std::uint32_t> behind;  // [op of whole]: where what it has become ends
    for (std::uint32_t k = 0; k < whole.ops.size(); ++k) {
      ProgramOp bare = whole.ops[k];
      const bool shared = bare.group != kNoIndex && transfers_.is_shared_sum(program, bare);
      if (shared) bare.group = kNoIndex;
      const ProgramOp op = parts.op(bare);
      if (shared)
        transfers_.add_exchange({id, k, rank}, op, place, made.ops);
      else if (is_transfer(op.kind))
        transfers_.add_pieces({id, k, rank}, op, place, made.ops, joins);
      else
        made.ops.push_back(op);
      behind.push_back(static_cast<std::uint32_t>(made.ops.size()));
    }
    for (ProgramOp& op : made.ops) {
      for (std::uint32_t& after : op.after) after = behind[after] - 1;
    }
    ClassSegment out;
    for (const ProgramOp& join : joins)
      out.joined.push_back(storage_root(out_, join.writes[0].value));
    out.segment = add_segment(made);
    if (!joins.empty()) {
      const std::size_t receives = made.name.find("RECV");
      made.name = receives == std::string::npos ? made.name + ".join"
                                                : made.name.replace(receives, 4, "JOIN");
      made.ops = std::move(joins);
      out.join = add_segment(made);
    }
    return out;
  }

  /// None: it does nothing. Ranks of a class share it, and others that do the same.
  SegmentId add_segment(Segment made) {
    if (made.ops.empty()) return kNoIndex;
    auto& known = named_[made.name];
    for (const SegmentId id : known) {
      if (out_.segments[id].ops == made.ops) return id;
    }
    if (!known.empty()) made.name += "." + letters_of_form(static_cast<int>(known.size()) + 1);
    known.push_back(out_.segments.add(std::move(made)));
    return known.back();
  }

  const Numbered<const Program*>& of_rank_;
  const Program& widest_;
  const AxisId axis_;
  Program out_;
  std::map<const Program*, TakenParts> sources_;
  std::map<std::string, std::vector<SegmentId>> named_;
  DegreeTransfers transfers_{of_rank_, axis_, out_};
};

}  // namespace

std::variant<Program, Infeasible> join_degrees(const Numbered<const Program*>& of_rank) {
  return DegreesJoiner(of_rank).run();
}

}  // namespace trainyard
