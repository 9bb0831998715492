#include "engine/passes/degree_transfers.h"

#include <algorithm>

#include "engine/graph/op_table.h"

namespace trainyard {

namespace {

std::vector<const ProgramOp*> transfers_in(const Segment& segment) {
  std::vector<const ProgramOp*> out;
  for (const ProgramOp& op : segment.ops)
    if (is_transfer(op.kind)) out.push_back(&op);
  return out;
}

/// The transfer of another Program that is the same one of its segment, which may have other
/// collectives before it; nullptr: none.
const ProgramOp* find_end(const Program& program, const Segment& segment, std::uint32_t op) {
  const auto own = transfers_in(segment);
  const auto number = std::find(own.begin(), own.end(), &segment.ops[op]) - own.begin();
  for (const Segment& one : program.segments) {
    if (one.name != segment.name) continue;
    const auto there = transfers_in(one);
    return number < std::ssize(there) ? there.begin()[number] : nullptr;
  }
  return nullptr;
}

ProgramOp kernel(OpKind kind, const ProgramOp& of, Operands reads) {
  ProgramOp op;
  op.kind = kind;
  op.module = of.module;
  op.reads = std::move(reads);
  return op;
}

}  // namespace

void DegreeTransfers::refuse(std::string reason) {
  if (!problem_) problem_ = Infeasible{std::move(reason), {}};
}

void DegreeTransfers::add_pieces(const TransferEnd& end, const ProgramOp& op, std::int32_t place,
                                 std::vector<ProgramOp>& ops, std::vector<ProgramOp>& joins) {
  const Program& program = program_at(end);
  const TransferId transfer = program.segments[end.segment].ops[end.op].transfer;
  const bool sends = op.kind == OpKind::kSend;
  ProgramOp join;
  for (ProgramOp& made :
       moves(pieces_of(end, sends), sends, op, program.transfers[transfer].offset, place, join))
    ops.push_back(std::move(made));
  if (!join.reads.empty()) joins.push_back(std::move(join));
}

/// One op for each piece of the rank at `place`, in turn.
std::vector<ProgramOp> DegreeTransfers::moves(const Ends& ends, bool sends, const ProgramOp& op,
                                              std::int32_t offset, std::int32_t place,
                                              ProgramOp& join) {
  std::vector<const DegreePiece*> mine;
  for (const DegreePiece& piece : ends.pieces)
    if ((sends ? piece.from : piece.to) == place) mine.push_back(&piece);
  std::sort(mine.begin(), mine.end(),
            [](const auto* a, const auto* b) { return a->turn < b->turn; });
  const Operand whole = (sends ? op.reads : op.writes)[0];
  std::vector<ProgramOp> out;
  for (const DegreePiece* piece : mine) {
    ProgramOp& part = out.emplace_back(op);
    ReplicaPairs pairs = pairs_of_turn(ends.pieces, piece->turn);
    if (!sends) {
      for (auto& [from, to] : pairs) std::swap(from, to);
      std::sort(pairs.begin(), pairs.end());
    }
    part.transfer = transfer_by(out_, offset, pairs);
    part.host_sync = op.host_sync && piece == mine.back();
    if (ends.own.empty() || ends.own[place] == IndexRanges{piece->range}) continue;
    const std::int64_t begin = place_in_runs(ends.own[place], piece->range.begin);
    const Operand run{
        view(whole.value, {begin, begin + piece->range.size()}, sends ? ".sent" : ".received"),
        whole.slot};
    (sends ? part.reads : part.writes)[0] = run;
    if (!sends) join.reads.push_back(run);
  }
  if (join.reads.empty()) return out;
  join = kernel(OpKind::kJoin, op, std::move(join.reads));
  join.writes.push_back(whole);
  return out;
}

const std::map<TransferEnd, TransferEnd>& DegreeTransfers::ends_of(const Program& program) {
  const auto known = ends_.find(&program);
  return known != ends_.end() ? known->second
                              : ends_.emplace(&program, transfer_ends(program)).first->second;
}

DegreeTransfers::Ends DegreeTransfers::pieces_of(const TransferEnd& end, bool sends) {
  const Program& program = program_at(end);
  const TransferEnd other = ends_of(program).at(end);
  const Program& others = program_at(other);
  if (&others == &program) {
    const DegreeRuns alike(degree(program), IndexRanges{{0, 1}});
    return {pieces_between(alike, alike), {}};
  }
  const Segment& receives = program.segments[other.segment];
  const ProgramOp* there = find_end(others, receives, other.op);
  if (there == nullptr) {
    refuse("stages send other tensors at other tensor degrees: " + receives.name);
    return {};
  }
  const ProgramOp& here = program.segments[end.segment].ops[end.op];
  const DegreeRuns own = runs(program, moved_value(program, here));
  const DegreeRuns theirs = runs(others, moved_value(others, *there));
  if (problem_) return {};
  if (own.back().back().end != theirs.back().back().end) {
    refuse("stages send tensors of other sizes at other tensor degrees: " + receives.name);
    return {};
  }
  return {sends ? pieces_between(own, theirs) : pieces_between(theirs, own), own};
}

DegreeRuns DegreeTransfers::runs(const Program& program, const Value& value) {
  auto found = runs_along(program, value, axis_, degree(program));
  if (auto* reason = std::get_if<Infeasible>(&found)) {
    refuse(std::move(reason->reason));
    return {};
  }
  return std::get<DegreeRuns>(std::move(found));
}

/// Some elements of a value, as it lies in storage. What is received and sent on may be cut
/// otherwise behind than before, so what is written is another view than what is read.
ValueId DegreeTransfers::view(ValueId whole, const IndexRange& range, const char* how) {
  const auto [known, fresh] = views_.try_emplace({whole, how, range.begin, range.end}, kNoIndex);
  if (!fresh) return known->second;
  Value run = out_.values[whole];
  TensorSpec spec = spec_of(out_, run);
  Axes axes;
  for (const DimSplit& dim : spec.dims) {
    const Axes& cut = dim.parts.front().axes;
    axes.insert(axes.end(), cut.begin(), cut.end());
  }
  spec.dims = {split_over(axes)};
  run.name += how + std::to_string(range.begin) + "-" + std::to_string(range.end);
  run.dims = {{range.size(), range.size(), -1}};
  run.spec = add_spec(out_, spec);
  run.alias = Alias{whole, range.begin, kNoIndex};
  return known->second = out_.values.add(std::move(run));
}

// --- weights that two pipeline ranks share ---

bool DegreeTransfers::is_shared_sum(const Program& program, const ProgramOp& op) const {
  if (op.kind != OpKind::kAllReduce) return false;
  const AxisSet axes = set_of(program.groups[op.group].axes);
  return axes == bit(stage_axis(program.mesh)) && !program.groups[op.group].members.empty();
}

/// The op of the rank's list that stands where `like` stands in its own: as many of the group are
/// before it.
const ProgramOp* DegreeTransfers::shared_sum_at(std::int32_t pipeline_rank,
                                                const std::string& group,
                                                const ProgramOp* like) const {
  const auto sums = [&](std::int32_t rank) {
    const Program& program = *of_rank_[rank];
    std::vector<const ProgramOp*> out;
    for (const Call& call : program.body.begin()[rank].calls) {
      for (const ProgramOp& op : program.segments[call.segment].ops) {
        if (op.group != kNoIndex && program.groups[op.group].name == group &&
            is_shared_sum(program, op))
          out.push_back(&op);
      }
    }
    return out;
  };
  const auto there = sums(pipeline_rank);
  for (const std::int64_t rank : of_rank_.keys()) {
    const auto own = sums(static_cast<std::int32_t>(rank));
    const auto at = std::find(own.begin(), own.end(), like) - own.begin();
    if (at < std::ssize(own)) return at < std::ssize(there) ? there.begin()[at] : nullptr;
  }
  return nullptr;
}

/// Whether a bucket of gradients has no other in it, nor any padding: then ranks have runs of it.
bool DegreeTransfers::is_one_weight(const Program& program, ValueId gradient) const {
  const ValueId bucket = storage_root(program, gradient);
  const std::int64_t elements = num_elements(program.values[bucket].dims);
  for (const ValueId id : program.values.keys()) {
    if (storage_root(program, id) == bucket && num_elements(program.values[id].dims) != elements)
      return false;
  }
  return true;
}

ValueId DegreeTransfers::value_of_other(ValueId own) {
  const auto [known, fresh] = of_other_.try_emplace(own, kNoIndex);
  if (!fresh) return known->second;
  Value value = out_.values[own];
  value.name += ".of_other";
  value.scope = Scope::kLocal;
  value.memory = MemoryClass::kBuffer;
  value.alias.reset();
  return known->second = out_.values.add(std::move(value));
}

void DegreeTransfers::add_exchange(const TransferEnd& end, const ProgramOp& op, std::int32_t place,
                                   std::vector<ProgramOp>& ops) {
  const Program& program = program_at(end);
  const ProgramOp& sum = program.segments[end.segment].ops[end.op];
  const Group& group = program.groups[sum.group];
  if (group.members.size() != 2)
    return refuse("weights of " + std::to_string(group.members.size()) +
                  " pipeline ranks are shared; those of two, of unlike tensor degrees, can be");
  const bool first = group.members.front() == end.pipeline_rank;
  const std::int32_t other = group.members.begin()[first ? 1 : 0];
  const Program& others = *of_rank_[other];
  const ProgramOp* there = shared_sum_at(other, group.name, &sum);
  if (there == nullptr)
    return refuse("pipeline ranks of unlike tensor degrees share other weights");
  if (!is_one_weight(program, sum.reads[0].value) || !is_one_weight(others, there->reads[0].value))
    return refuse(
        "several weights that pipeline ranks share lie in one bucket, or what ZeRO "
        "divides of them: ranks of unlike tensor degrees have no like runs of that");
  const DegreeRuns own = runs(program, program.values[sum.reads[0].value]);
  const DegreeRuns theirs = runs(others, others.values[there->reads[0].value]);
  if (problem_) return;
  if (own.back().back().end != theirs.back().back().end)
    return refuse("pipeline ranks of unlike tensor degrees share weights of other sizes");
  const ValueId received = value_of_other(op.reads[0].value);
  ProgramOp send = kernel(OpKind::kSend, op, {op.reads[0]}),
            receive = kernel(OpKind::kRecv, op, {});
  receive.writes.push_back({received, 0});
  send.stream = receive.stream = op.stream;
  const std::int32_t offset = other - end.pipeline_rank;
  ProgramOp none, join;
  const auto sends = moves({pieces_between(own, theirs), own}, true, send, offset, place, none);
  const auto receives =
      moves({pieces_between(theirs, own), own}, false, receive, offset, place, join);
  // The one first sends, the other receives: neither waits for what waits for it.
  for (const bool sending : {first, !first})
    ops.insert(ops.end(), (sending ? sends : receives).begin(), (sending ? sends : receives).end());
  if (!join.reads.empty()) ops.push_back(std::move(join));
  // The same sum at both ends, to the last bit: two summands have no order.
  ProgramOp add = kernel(OpKind::kAdd, op, {op.reads[0], {received, 0}});
  add.writes = op.writes;
  ops.push_back(std::move(add));
  ops.push_back(kernel(OpKind::kFree, op, {{received, 0}}));
}

}  // namespace trainyard
