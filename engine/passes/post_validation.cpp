#include "engine/passes/post_validation.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "engine/base/error.h"
#include "engine/passes/split_transfers.h"
#include "engine/passes/step_reductions.h"
#include "engine/passes/step_segments.h"
#include "engine/program/add_attrs.h"

namespace trainyard {

namespace {

class PostValidation {
 public:
  PostValidation(ProgramDraft& draft, const std::vector<int>& replicas)
      : draft_(draft),
        step_(draft.step),
        replicas_(replicas) {}

  void run() {
    keep_gradients();
    keep_norm_in_rank();
    for (auto* of_class : {&step_.norm_of_class, &step_.validate, &step_.correct, &step_.pass_norm,
                           &step_.receive_norm})
      of_class->resize(draft_.classes.size(), kNoIndex);
    for (std::int32_t rank = 0; rank < draft_.num_ranks; ++rank) {
      const ValueId sum = sum_so_far(rank);
      update_optimistically(rank, sum);
      add_validation(rank, sum);
    }
    step_.zero_of_rank.resize(draft_.num_ranks);
    for (std::int32_t stage = 0; stage < draft_.num_stages; ++stage) zero_late(stage);
  }

 private:
  Program& program() { return draft_.program; }
  std::vector<ProgramOp>& ops(SegmentId id) { return program().segments[id].ops; }
  bool is_last(std::int32_t rank) const { return rank + 1 == draft_.num_ranks; }

  /// As they are when they have been reduced.
  void keep_gradients() {
    Indexed<ValueId, bool> kept(program().values.size(), false);
    for (const Bucket& bucket : draft_.plan.buckets) kept[reduced_storage(bucket)] = true;
    for (const ValueId v : kept.keys()) {
      if (kept[storage_root(program(), v)]) {
        program().values[v].scope = Scope::kPersistent;
      }
    }
  }

  /// Value of one number, which stays: what is sent may leave long after the step's end.
  ValueId number(const std::string& name, DType type) {
    Value value;
    value.name = name;
    value.dims = {Dim{1, 1, -1}};
    value.dtype = type;
    value.scope = Scope::kPersistent;
    value.memory = MemoryClass::kGradient;
    program().values.push_back(std::move(value));
    return ValueId(program().values.size() - 1);
  }

  static ProgramOp kernel(OpKind kind, std::initializer_list<ValueId> reads, ValueId write) {
    ProgramOp op;
    op.kind = kind;
    for (const ValueId read : reads) op.reads.push_back({read, 0});
    op.writes.push_back({write, 0});
    return op;
  }

  static ProgramOp transfer(OpKind kind, TransferId peer, ValueId value) {
    ProgramOp op;
    op.kind = kind;
    op.stream = StreamId::kNorm;
    op.transfer = peer;
    (kind == OpKind::kSend ? op.reads : op.writes).push_back({value, 0});
    return op;
  }

  /// Whom a replica tells, of the next pipeline rank or the one before.
  std::vector<TransferId> peers(std::int32_t rank, bool next, int turns) {
    if (replicas_.empty()) return {next ? kToNext : kToPrevious};
    const std::int32_t offset = next ? 1 : -1;
    std::vector<TransferId> out;
    for (int turn = 0; turn < turns; ++turn) {
      out.push_back(transfer_by(program(), offset,
                                pairs_of_number(replicas_[rank], replicas_[rank + offset], turn)));
    }
    return out;
  }
  /// Whom one hears from.
  TransferId peer(std::int32_t rank, bool next, int turn) {
    if (replicas_.empty()) return next ? kToNext : kToPrevious;
    const std::int32_t offset = next ? 1 : -1;
    ReplicaPairs pairs = pairs_of_number(replicas_[rank + offset], replicas_[rank], turn);
    for (auto& [own, other] : pairs) std::swap(own, other);
    std::sort(pairs.begin(), pairs.end());
    return transfer_by(program(), offset, pairs);
  }

  /// A segment for each class of a pipeline rank: `ops_of` says what one does whose replicas have
  /// these turns. None: nothing. `known`: takes the first one's ops.
  template <typename OpsOf>
  void add_for_classes(std::int32_t rank, const std::string& name, Phase phase,
                       Numbered<SegmentId>& of_class, const OpsOf& ops_of,
                       SegmentId known = kNoIndex) {
    std::map<NumberTurns, SegmentId> made;
    int number = 0;
    for (const std::int32_t c : draft_.classes.keys()) {
      if (draft_.classes[c].rank != rank) continue;
      const auto [at, fresh] = made.try_emplace(draft_.classes[c].norm, kNoIndex);
      if (fresh) {
        std::vector<ProgramOp> ops = ops_of(draft_.classes[c].norm);
        if (known != kNoIndex) {
          program().segments[known].ops = std::move(ops);
          at->second = std::exchange(known, kNoIndex);
          ++number;
        } else if (!ops.empty()) {
          const std::string more = number == 0 ? "" : "." + std::to_string(number);
          at->second = add_segment(rank, name + more, phase, std::move(ops));
          ++number;
        }
      }
      of_class[c] = at->second;
    }
  }

  SegmentId add_segment(std::int32_t stage, const std::string& name, Phase phase,
                        std::vector<ProgramOp> ops) {
    return add_step_segment(program(), stage, name, phase, std::move(ops));
  }

  /// The group that shares the norm: without the pipeline, and gone where that leaves single ranks.
  void keep_norm_in_rank() {
    group_ = ops(step_.norm.front()).back().group;
    auto& axes = program().groups[group_].axes;
    axes.erase(std::remove(axes.begin(), axes.end(), stage_axis(program().mesh)), axes.end());
    several_ = group_size(program().mesh, axes) > 1;
    if (several_) return;
    check(group_ + 1 == program().groups.next(), "the norm's group is the last");
    program().groups.pop_back();
  }

  /// Whether the rank may post the receive before its last action, so that the rank before need not
  /// wait for its end. Not where the sum over tied weights is on the same stream behind it: the
  /// ranks before may wait for that.
  bool receives_ahead(std::int32_t rank) const { return !has_tied(rank); }

  bool has_tied(std::int32_t rank) const {
    const auto& own = draft_.plan.of_rank[rank];
    return std::any_of(own.begin(), own.end(),
                       [&](std::size_t i) { return !draft_.plan.buckets[i].tied.empty(); });
  }

  /// Rewrites NORM; the squares of the gradients of the pipeline ranks up to this one.
  ValueId sum_so_far(std::int32_t rank) {
    const SegmentId id = step_.norm[rank];
    std::vector<ProgramOp> norm = std::move(ops(id));
    ValueId own = norm.back().reads[0].value;
    const ValueId reduced = norm.back().writes[0].value;
    const DType type = program().values[own].dtype;
    for (const ValueId value : {own, reduced}) {
      program().values[value].scope = Scope::kPersistent;
    }
    if (several_) {
      own = reduced;
      norm.back().host_sync = false;
    } else {
      norm.pop_back();
    }
    const std::string at = "@" + std::to_string(rank);
    ValueId sum = own;
    ValueId before = kNoIndex;
    std::vector<ProgramOp> adds;
    if (rank > 0) {
      before = number("norm_before" + at, type);
      sum = number("norm_so_far" + at, type);
      adds.push_back(kernel(OpKind::kAdd, {before, own}, sum));
      if (is_last(rank) && has_tied(rank)) {  // VALIDATE writes where the sum lies
        guard_of_tied_ = number("norm_known" + at, type);
        adds.push_back(kernel(OpKind::kAdd, {before, own}, guard_of_tied_));
      }
    }
    const auto receives = [&](const NumberTurns& turns) -> std::vector<ProgramOp> {
      if (rank == 0) return {};
      return {transfer(OpKind::kRecv, peer(rank, false, turns.receives_previous), before)};
    };
    if (receives_ahead(rank))
      add_for_classes(rank, "RECV_NORM", Phase::kUpdate, step_.receive_norm, receives);
    const ValueId flag = number("updated@" + std::to_string(rank), DType::kUint8);
    updated_.push_back(flag);
    const auto all_of = [&](const NumberTurns& turns) {
      std::vector<ProgramOp> all = norm;
      if (!receives_ahead(rank)) append(all, receives(turns));
      append(all, adds);
      if (!is_last(rank)) append(all, sends(rank, true, turns.sends_next, sum));
      all.push_back(kernel(OpKind::kWithinClip, {sum}, flag));
      return all;
    };
    add_for_classes(rank, "NORM", Phase::kUpdate, step_.norm_of_class, all_of, id);
    return sum;
  }

  std::vector<ProgramOp> sends(std::int32_t rank, bool next, int turns, ValueId value) {
    std::vector<ProgramOp> out;
    for (const TransferId to : peers(rank, next, turns))
      out.push_back(transfer(OpKind::kSend, to, value));
    return out;
  }

  static void append(std::vector<ProgramOp>& to, const std::vector<ProgramOp>& more) {
    to.insert(to.end(), more.begin(), more.end());
  }

  /// Rewrites UPDATE: it looks at the sum so far alone, and what stays is not freed.
  void update_optimistically(std::int32_t rank, ValueId sum) {
    const ValueId flag = updated_.back();
    std::vector<ProgramOp>& update = ops(step_.update[rank]);
    for (ProgramOp& op : update) {
      if (op.kind != OpKind::kFree) continue;
      const auto stays = [&](const Operand& freed) {
        const ValueId root = storage_root(program(), freed.value);
        return program().values[root].scope == Scope::kPersistent;
      };
      op.reads.erase(std::remove_if(op.reads.begin(), op.reads.end(), stays), op.reads.end());
    }
    std::erase_if(update,
                  [](const ProgramOp& op) { return op.kind == OpKind::kFree && op.reads.empty(); });
    for (ProgramOp& op : update) {
      if (op.kind != OpKind::kAdamW && op.kind != OpKind::kSgd) continue;
      op.reads = {op.reads.back()};
      op.guard = Operand{is_tied(rank, op.reads.back().value) ? guard_of_tied(rank, sum) : flag, 0};
    }
  }

  /// Weights that several ranks hold are updated by all of them or by none, whatever the part of
  /// the norm that each knows, unless it is not finite: so all correct them alike, and their copies
  /// stay the same to the last bit.
  bool is_tied(std::int32_t rank, ValueId gradient) const {
    const ValueId root = storage_root(draft_.program, gradient);
    const auto& own = draft_.plan.of_rank[rank];
    return std::any_of(own.begin(), own.end(), [&](std::size_t i) {
      const Bucket& bucket = draft_.plan.buckets[i];
      return !bucket.tied.empty() && reduced_storage(bucket) == root;
    });
  }
  ValueId guard_of_tied(std::int32_t rank, ValueId sum) const {
    return is_last(rank) ? guard_of_tied_ : sum;
  }

  void add_validation(std::int32_t rank, ValueId sum) {
    const std::string at = "@" + std::to_string(rank);
    const DType type = program().values[sum].dtype;
    const ValueId all = number("norm_all" + at, type);
    ProgramOp largest;
    if (is_last(rank)) {
      program().values[all].alias = Alias{sum, 0, kNoIndex};
      largest = largest_of_replicas(sum, all);
    }
    const auto hears = [&](const NumberTurns& turns) {
      std::vector<ProgramOp> hear = {
          is_last(rank) ? largest
                        : transfer(OpKind::kRecv, peer(rank, true, turns.receives_next), all)};
      hear.back().host_sync =
          true;  // the host decides whether CORRECT is called, and whether the step is void
      return hear;
    };
    add_for_classes(rank, "VALIDATE", Phase::kUpdate, step_.validate, hears);
    const SegmentId correct = add_segment(rank, "CORRECT", Phase::kCorrect,
                                          correction(rank, all, guard_of_tied(rank, sum)));
    for (const std::int32_t c : draft_.classes.keys()) {
      if (draft_.classes[c].rank == rank) step_.correct[c] = correct;
    }
    if (rank == 0) return;
    add_for_classes(
        rank, "PASS_NORM", Phase::kUpdate, step_.pass_norm,
        [&](const NumberTurns& turns) { return sends(rank, false, turns.sends_previous, all); });
  }

  /// On the last rank, so that the sum that goes back is the same on all replicas to the last bit.
  ProgramOp largest_of_replicas(ValueId sum, ValueId all) {
    Axes axes = program().groups[kDataGroup].axes;
    const Axes& tensor = program().groups[kTensorGroup].axes;
    axes.insert(axes.end(), tensor.begin(), tensor.end());
    program().groups.push_back({"replicas", axes, {}});
    OpAttrs attrs;
    attrs.maximum = true;
    ProgramOp op = kernel(OpKind::kAllReduce, {sum}, all);
    op.stream = StreamId::kNorm;
    op.group = GroupId(program().groups.size() - 1);
    op.attrs = add_attrs(program(), attrs);
    return op;
  }

  /// As the update, of the same buckets. `sum`: what the update of tied weights was guarded by.
  std::vector<ProgramOp> correction(std::int32_t rank, ValueId all, ValueId sum) {
    const ValueId flag = number("invalid@" + std::to_string(rank), DType::kUint8);
    std::vector<ProgramOp> correct = {kernel(OpKind::kBeyondClip, {all}, flag)};
    for (ProgramOp op : ops(step_.update[rank])) {
      if (op.kind == OpKind::kFree) continue;
      if (op.kind == OpKind::kAverage) continue;  // does not depend on the norm
      op.guard = Operand{flag, 0};
      if (!is_collective(op.kind)) {
        op.kind = op.kind == OpKind::kAdamW ? OpKind::kCorrectAdamW : OpKind::kCorrectSgd;
        const ValueId updated = is_tied(rank, op.reads.back().value) ? sum : updated_.back();
        op.reads = {Operand{all, 0}, Operand{updated, 0}, op.reads.back()};
      }
      correct.push_back(std::move(op));
    }
    return correct;
  }

  /// The gradients are zeroed behind the validation; the loss, which forwards add to, as before.
  void zero_late(std::int32_t stage) {
    SegmentId& zero = step_.zero[stage];
    const SegmentId gradients = std::exchange(zero, kNoIndex);
    step_.zero_of_rank[draft_.forms[stage].rank].push_back(gradients);
    if (ops(gradients).empty() || ops(gradients)[0].writes.back().value != draft_.loss) return;
    ProgramOp loss = ops(gradients)[0];
    loss.writes = {loss.writes.back()};
    ops(gradients)[0].writes.pop_back();
    if (ops(gradients)[0].writes.empty()) ops(gradients).clear();
    zero = add_segment(stage, "ZERO_LOSS", Phase::kPrepare, {std::move(loss)});
  }

  ProgramDraft& draft_;
  StepSegments& step_;
  const std::vector<int>& replicas_;  // of each pipeline rank, if unlike
  GroupId group_ = kNoIndex;
  bool several_ = false;              // ranks of the group
  ValueId guard_of_tied_ = kNoIndex;  // of the last rank: its sum so far, which stays
  std::vector<ValueId> updated_;      // [rank]: flag, the update has taken place
};

}  // namespace

std::optional<Infeasible> add_post_validation(ProgramDraft& draft,
                                              const std::vector<int>& replicas) {
  if (draft.num_ranks == 1 || draft.step.norm.front() == kNoIndex) return std::nullopt;
  PostValidation(draft, replicas).run();
  const std::size_t transfers = draft.program.transfers.size();
  if (transfers <= kMostTransfers) return std::nullopt;
  return Infeasible{"the norm goes from replica to replica in turns, which makes " +
                        std::to_string(transfers) +
                        " kinds of transfers, of which this version has at most " +
                        std::to_string(kMostTransfers),
                    "schedule.post_validation"};
}

}  // namespace trainyard
