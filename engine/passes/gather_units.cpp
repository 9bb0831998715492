#include "engine/passes/gather_units.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/user_text.h"
#include "engine/passes/plan_mesh.h"
#include "engine/passes/step_reductions.h"

namespace trainyard {

namespace {

using Place = std::size_t;  // of an op in its segment; what is put there stands before it

/// What a segment does with the buckets of one unit.
struct UnitUse {
  Place first = 0, end = 0;
  std::vector<std::size_t> gathers;     // buckets
  std::vector<std::size_t> frees;       // gathered ones that no later segment reads
  std::vector<std::size_t> reshards;    // of these, those of which a piece stays
  std::map<std::size_t, Place> zeroes;  // where the gradient begins
  std::vector<std::size_t> reduces;
};

/// What is put between the ops of a segment, by place.
using Insertions = std::vector<std::vector<ProgramOp>>;

/// The bucket in whose parameters or gradients a value lies, where segments gather or reduce those.
struct InBucket {
  std::size_t bucket = 0;
  enum class As : std::uint8_t { kNeither, kParameter, kGradient } as = As::kNeither;
};

class UnitGathering {
 public:
  UnitGathering(ProgramDraft& draft, const ParallelConfig& parallel)
      : draft_(draft),
        zero_(parallel.zero),
        shards_(shard_group(draft.program, parallel)),
        replicas_(replicate_group(draft.program, parallel)),
        neighbours_(reshard_group(draft.program, parallel)) {
    find_buckets();
    for (const Segment& segment : draft.program.segments) {
      if (!computes(segment)) continue;
      for (const ProgramOp& op : segment.ops) {
        for_buckets(op, [&](std::size_t bucket, bool adds) {
          (adds ? added_in_ : read_in_).insert({bucket, segment.phase});
        });
      }
    }
  }

  void run() {
    set_scopes();
    for (const SegmentId id : draft_.program.segments.keys()) {
      if (computes(draft_.program.segments[id])) rewrite(draft_.program.segments[id]);
    }
  }

 private:
  std::vector<Bucket>& buckets() const { return draft_.plan.buckets; }

  void find_buckets() {
    const Program& program = draft_.program;
    in_bucket_.resize(program.values.size());
    for (std::size_t i = 0; i < buckets().size(); ++i) {
      const Bucket& bucket = buckets()[i];
      if (bucket.is_gathered()) in_bucket_[bucket.parameter] = {i, InBucket::As::kParameter};
      if (bucket.reduced_each) in_bucket_[bucket.gradient] = {i, InBucket::As::kGradient};
    }
    for (const ValueId id : program.values.keys())
      in_bucket_[id] = in_bucket_[storage_root(program, id)];
  }

  /// Whether every backward is the call behind its forward: else several microbatches are between
  /// the two at once.
  bool backward_at_once() const {
    return std::all_of(draft_.forms.begin(), draft_.forms.end(),
                       [](const StageForm& form) { return form.at_once; });
  }

  /// How long what is gathered, and what is added to in each microbatch, stays.
  void set_scopes() {
    const Scope kept = backward_at_once() ? Scope::kMicrobatch : Scope::kStep;
    const Scope added = any_splits(draft_.forms) ? Scope::kMicrobatch : Scope::kLocal;
    auto& values = draft_.program.values;
    for (const ValueId id : values.keys()) {
      const auto& [bucket, as] = in_bucket_[id];
      if (as == InBucket::As::kGradient) values[id].scope = added;
      if (as == InBucket::As::kParameter)
        values[id].scope = buckets()[bucket].kept ? kept : Scope::kLocal;
    }
    for (const Bucket& bucket : buckets()) {
      if (bucket.resharded) values[bucket.piece].scope = kept;
      if (bucket.cast_shard == kNoIndex) continue;
      // It goes once what is gathered of it is there, or with the step.
      const bool stays = bucket.kept && kept == Scope::kStep;
      values[bucket.cast_shard].scope = stays ? Scope::kStep : Scope::kLocal;
    }
  }

  static bool computes(const Segment& segment) {
    return segment.slots == 1 && segment.phase <= Phase::kRecompute;
  }

  /// Calls visit(bucket, adds) for each operand that lies in the parameters or gradients of a
  /// bucket which is gathered, or reduced in each microbatch.
  template <typename Visit>
  void for_buckets(const ProgramOp& op, const Visit& visit) const {
    if (op.kind == OpKind::kFree) return;
    for (const auto* operands : {&op.reads, &op.writes, &op.accumulates}) {
      for (const Operand& operand : *operands) {
        const auto& [bucket, as] = in_bucket_[operand.value];
        if (as != InBucket::As::kNeither) visit(bucket, as == InBucket::As::kGradient);
      }
    }
  }

  /// Buckets that are gathered alike compute together; others each by itself.
  std::pair<std::int32_t, std::int64_t> unit_of(std::size_t bucket) const {
    const Bucket& of = buckets()[bucket];
    if (!of.is_gathered()) return {-1, static_cast<std::int64_t>(bucket)};
    return {of.stage, of.unit};
  }

  bool is_read(std::size_t bucket, Phase phase) const { return read_in_.contains({bucket, phase}); }
  /// Whether no piece of a microbatch reads it behind this phase: a forward's embedding has none.
  bool is_read_last(std::size_t bucket, Phase phase) const {
    if (is_read(bucket, Phase::kBackwardWeight))
      return phase == Phase::kBackward || phase == Phase::kBackwardWeight;
    if (is_read(bucket, Phase::kBackward) || is_read(bucket, Phase::kBackwardInput))
      return phase == Phase::kBackward || phase == Phase::kBackwardInput;
    return phase == (is_read(bucket, Phase::kRecompute) ? Phase::kRecompute : Phase::kForward);
  }
  /// Whether this phase leaves a piece of what it has gathered, and whether it finds one.
  bool reshards(std::size_t bucket, Phase phase) const {
    return buckets()[bucket].resharded && phase == Phase::kForward &&
           piece_scope(bucket) == Scope::kMicrobatch && !is_read_last(bucket, phase);
  }
  bool has_piece(std::size_t bucket, Phase phase) const {
    return buckets()[bucket].resharded &&
           (phase != Phase::kForward || piece_scope(bucket) == Scope::kStep);
  }
  Scope piece_scope(std::size_t bucket) const {
    return draft_.program.values[buckets()[bucket].piece].scope;
  }
  bool is_added(std::size_t bucket, Phase phase) const {
    return added_in_.contains({bucket, phase});
  }

  /// In order of their first ops.
  std::vector<UnitUse> find_uses(const Segment& segment) const {
    std::map<std::pair<std::int32_t, std::int64_t>, UnitUse> uses;
    for (Place k = 0; k < segment.ops.size(); ++k) {
      for_buckets(segment.ops[k], [&](std::size_t bucket, bool adds) {
        const auto [known, fresh] = uses.try_emplace(unit_of(bucket));
        UnitUse& use = known->second;
        if (fresh) use.first = k;
        use.end = k + 1;
        if (adds) {
          use.zeroes.try_emplace(bucket, k);
        } else if (std::find(use.gathers.begin(), use.gathers.end(), bucket) == use.gathers.end()) {
          use.gathers.push_back(bucket);
        }
      });
    }
    std::vector<UnitUse> out;
    for (auto& [unit, use] : uses) out.push_back(settled(std::move(use), segment.phase));
    std::sort(out.begin(), out.end(),
              [](const UnitUse& a, const UnitUse& b) { return a.first < b.first; });
    return out;
  }

  /// Leaves of a use what this segment does, and not one before or behind it.
  UnitUse settled(UnitUse use, Phase phase) const {
    for (const std::size_t bucket : use.gathers) {
      const Scope scope = draft_.program.values[buckets()[bucket].parameter].scope;
      const bool ends =
          scope == Scope::kLocal || (scope == Scope::kMicrobatch && is_read_last(bucket, phase));
      if (ends) use.frees.push_back(bucket);
      if (reshards(bucket, phase)) use.reshards.push_back(bucket);
    }
    std::erase_if(use.gathers, [&](std::size_t bucket) {
      const Scope scope = draft_.program.values[buckets()[bucket].parameter].scope;
      return scope == Scope::kStep || (scope == Scope::kMicrobatch && phase != Phase::kForward);
    });
    for (const auto& [bucket, first] : use.zeroes) {
      const bool behind =
          phase == Phase::kBackwardInput && is_added(bucket, Phase::kBackwardWeight);
      if (!behind) use.reduces.push_back(bucket);
    }
    if (phase == Phase::kBackwardWeight) {
      std::erase_if(use.zeroes,
                    [&](const auto& zero) { return is_added(zero.first, Phase::kBackwardInput); });
    }
    return use;
  }

  void rewrite(Segment& segment) {
    const std::vector<UnitUse> uses = find_uses(segment);
    if (uses.empty()) return;
    Insertions in(segment.ops.size() + 1);
    put_ends(uses, in);
    put_gathers(uses, segment.phase, in);
    for (const UnitUse& use : uses) {
      for (const auto& [bucket, first] : use.zeroes) in[first].push_back(zero_op(bucket));
    }
    std::vector<ProgramOp> ops;
    for (Place k = 0; k <= segment.ops.size(); ++k) {
      std::move(in[k].begin(), in[k].end(), std::back_inserter(ops));
      if (k < segment.ops.size()) ops.push_back(std::move(segment.ops[k]));
    }
    segment.ops = std::move(ops);
  }

  /// Behind the last op of each unit: its parameters are freed, and its gradients reduced once
  /// those before have been added.
  void put_ends(std::vector<UnitUse> uses, Insertions& in) const {
    std::stable_sort(uses.begin(), uses.end(),
                     [](const UnitUse& a, const UnitUse& b) { return a.end < b.end; });
    std::vector<std::size_t> on_their_way;
    for (const UnitUse& use : uses) {
      std::vector<ProgramOp>& out = in[use.end];
      for (const std::size_t bucket : use.reshards) out.push_back(reshard_op(buckets()[bucket]));
      ProgramOp free;
      free.kind = OpKind::kFree;
      for (const std::size_t bucket : use.frees)
        free.reads.push_back({buckets()[bucket].parameter, 0});
      if (!free.reads.empty()) out.push_back(std::move(free));
      if (use.reduces.empty()) continue;
      put_sums(on_their_way, out);
      for (const std::size_t bucket : use.reduces) put_reduction(buckets()[bucket], out);
      on_their_way = use.reduces;
    }
    put_sums(on_their_way, in.back());
  }

  void put_sums(const std::vector<std::size_t>& of, std::vector<ProgramOp>& out) const {
    ProgramOp free;
    free.kind = OpKind::kFree;
    for (const std::size_t i : of) {
      const Bucket& bucket = buckets()[i];
      ProgramOp add;
      add.kind = OpKind::kAdd;
      add.reads.push_back({bucket.gradient_sum, 0});
      add.accumulates.push_back({bucket.gradient_shard, 0});
      out.push_back(std::move(add));
      free.reads.push_back({bucket.gradient, 0});
      free.reads.push_back({bucket.gradient_part, 0});
    }
    if (!free.reads.empty()) out.push_back(std::move(free));
  }

  void put_reduction(const Bucket& bucket, std::vector<ProgramOp>& out) const {
    out.push_back(collective_op(OpKind::kReduceScatter, shards_, StreamId::kDp, bucket.gradient,
                                bucket.gradient_part));
    if (replicas_ == kNoIndex) return;
    out.push_back(collective_op(OpKind::kAllReduce, replicas_, StreamId::kDp, bucket.gradient_part,
                                bucket.gradient_sum));
  }

  ProgramOp zero_op(std::size_t bucket) const {
    ProgramOp op;
    op.kind = OpKind::kZero;
    op.writes.push_back({buckets()[bucket].gradient, 0});
    return op;
  }

  void put_gathers(const std::vector<UnitUse>& uses, Phase phase, Insertions& in) const {
    std::vector<const UnitUse*> gathered, freed;  // freed: of those, by this segment
    for (const UnitUse& use : uses) {
      if (use.gathers.empty()) continue;
      gathered.push_back(&use);
      Place at = std::ssize(gathered) > zero_.prefetch
                     ? (gathered.end() - 1 - zero_.prefetch)[0]->first
                     : 0;
      if (!use.frees.empty()) {
        if (std::ssize(freed) >= zero_.gathers_in_flight)
          at = std::max(at, (freed.end() - zero_.gathers_in_flight)[0]->end);
        freed.push_back(&use);
      }
      ProgramOp free;  // once the gather has ended, for which the unit waits
      free.kind = OpKind::kFree;
      for (const std::size_t i : use.gathers) {
        const Bucket& bucket = buckets()[i];
        std::vector<ProgramOp>& out = in[std::min(at, use.first)];
        if (has_piece(i, phase)) {
          out.push_back(collective_op(OpKind::kAllGather, neighbours_, StreamId::kDp, bucket.piece,
                                      bucket.parameter));
          if (piece_scope(i) == Scope::kMicrobatch && is_read_last(i, phase))
            free.reads.push_back({bucket.piece, 0});
          continue;
        }
        for (ProgramOp& op : gather_ops(bucket, shards_)) out.push_back(std::move(op));
        if (bucket.cast_shard != kNoIndex) free.reads.push_back({bucket.cast_shard, 0});
      }
      if (!free.reads.empty()) in[use.first].push_back(std::move(free));
    }
  }

  ProgramDraft& draft_;
  const ZeroConfig& zero_;
  GroupId shards_, replicas_, neighbours_;
  Indexed<ValueId, InBucket> in_bucket_;
  std::set<std::pair<std::size_t, Phase>> read_in_, added_in_;
};

}  // namespace

std::optional<Infeasible> gather_obstacle(const Plan& plan, bool pairs) {
  const bool in_microbatches = shards_parameters(plan.parallel) ||
                               (shards_state(plan.parallel) && plan.parallel.zero.reduces_each());
  if (!pairs || !in_microbatches) return std::nullopt;
  return Infeasible{"ZeRO " + std::to_string(plan.parallel.zero.stage) +
                        " gathers and reduces around one microbatch, and schedule " +
                        plan.schedule.method + " runs two together",
                    "parallel.zero.stage"};
}

std::optional<Infeasible> gather_units(ProgramDraft& draft, const TrainingGraph& training,
                                       const ParallelConfig& parallel) {
  const std::string lost = unmatched_pattern(training, parallel.zero.units);
  if (!lost.empty()) return Infeasible{"no module matches " + quoted(lost), "parallel.zero.units"};
  UnitGathering(draft, parallel).run();
  return std::nullopt;
}

}  // namespace trainyard
