#include "engine/passes/gather_units.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/user_text.h"
#include "engine/passes/bucket_updates.h"
#include "engine/passes/divided_state.h"
#include "engine/passes/fetched_copies.h"
#include "engine/passes/fp8_gathers.h"
#include "engine/passes/plan_mesh.h"
#include "engine/passes/step_reductions.h"
#include "engine/passes/unit_reductions.h"
#include "engine/passes/unit_uses.h"
#include "engine/passes/units_ahead.h"
#include "engine/plan/microbatch_sizes.h"

namespace trainyard {

namespace {

/// What is put between the ops of a segment, by place.
using Insertions = std::vector<std::vector<ProgramOp>>;

/// The next call: of the second microbatch of the segment that gathers for it, or of the same.
struct NextCall {
  SegmentId segment = kNoIndex;
  std::uint8_t slot = 0;
};

class UnitGathering {
 public:
  UnitGathering(ProgramDraft& draft, const ParallelConfig& parallel)
      : draft_(draft),
        zero_(parallel.zero),
        loads_(unit_loads(parallel.zero)),
        parallel_(parallel),
        reductions_(draft, parallel),
        neighbours_(reshard_group(draft.program, parallel)),
        uses_(draft),
        copies_(draft, uses_) {}

  void run(const std::set<CallSuccession>& successions) {
    units_.resize(draft_.program.segments.size());
    for (const SegmentId id : units_.keys()) {
      const Segment& segment = draft_.program.segments[id];
      if (UnitUses::computes(segment)) units_[id].uses = uses_.find(segment);
      units_[id].loaded.resize(loads_.size(), 0);
      units_[id].loaded_buckets.resize(loads_.size());
    }
    find_ahead(successions);
    for (const SegmentId id : units_.keys()) read_copies(id);
    for (const CallSuccession& succession : successions) add_segment_of(succession);
    for (const SegmentId id : units_.keys()) {
      if (UnitUses::computes(draft_.program.segments[id]))
        draft_.program.segments[id].ops = rewritten(id, std::nullopt);
    }
  }

 private:
  const Bucket& bucket(std::size_t index) const { return draft_.plan.buckets[index]; }
  GroupId shards_of(std::size_t index) const {
    return shard_group_of(draft_.program, bucket(index), parallel_);
  }
  const Segment& segment(SegmentId id) const { return draft_.program.segments[id]; }

  static bool holds(const std::vector<std::size_t>& buckets, std::size_t index) {
    return std::find(buckets.begin(), buckets.end(), index) != buckets.end();
  }

  static std::vector<const UnitUse*> freeing(std::vector<const UnitUse*> gathering) {
    std::erase_if(gathering, [](const UnitUse* use) { return use->frees.empty(); });
    return gathering;
  }

  void find_ahead(const std::set<CallSuccession>& successions) {
    for (const CallSuccession& succession : successions) {
      const SegmentId id = segment_of(draft_, succession.next);
      if (id == kNoIndex || units_[id].ahead() > 0) continue;
      find_units_ahead(zero_, loads_, uses_, segment(id).phase, units_[id]);
    }
  }

  /// What load `k` makes of a bucket, as the segment has it; none: nothing is loaded for it.
  ValueId loaded(SegmentId id, std::size_t index, std::size_t k) {
    const Phase phase = segment(id).phase;
    if (k >= loads_.size() || !uses_.loads(index, phase)) return kNoIndex;
    const ValueId local = bucket(index).*loads_[k].to;
    return holds(units_[id].loaded_buckets[k], index)
               ? copies_.loaded(local, index, segment(id).stage, phase)
               : local;
  }

  /// The bucket as the segment has it gathered.
  GatheredBucket gathered(SegmentId id, std::size_t index) {
    if (is_fetched(id, index)) return copies_.get(index, segment(id).stage, segment(id).phase);
    const Bucket& of = bucket(index);
    return {of.parameter, of.own_piece, of.cast_shard, of.parameter_packed, of.by};
  }
  bool is_fetched(SegmentId id, std::size_t index) const {
    return holds(units_[id].fetched_buckets, index);
  }

  /// A segment reads the copies of what has been gathered before it.
  void read_copies(SegmentId id) {
    if (units_[id].fetched == 0) return;
    const std::int32_t stage = segment(id).stage;
    const Phase phase = segment(id).phase;
    for (ProgramOp& op : draft_.program.segments[id].ops) {
      for (auto* operands : {&op.reads, &op.writes, &op.accumulates}) {
        for (Operand& operand : *operands) {
          const InBucket& in = uses_.in_bucket(operand.value);
          if (in.as == InBucket::As::kParameter && is_fetched(id, in.bucket))
            operand.value = copies_.copy_of(operand.value, in.bucket, stage, phase);
        }
      }
    }
  }

  std::vector<ProgramOp> rewritten(SegmentId id, const std::optional<NextCall>& next) {
    const std::vector<ProgramOp>& own = segment(id).ops;
    Insertions in(own.size() + 1);
    put_ends(id, in);
    put_gathers(id, in);
    for (const UnitUse& use : units_[id].uses) {
      for (const auto& [index, first] : use.zeroes) in[first].push_back(zero_op(index));
    }
    if (next) put_fetches(id, *next, in);
    std::vector<ProgramOp> ops;
    for (Place k = 0; k <= segment(id).ops.size(); ++k) {
      std::move(in[k].begin(), in[k].end(), std::back_inserter(ops));
      if (k < segment(id).ops.size()) ops.push_back(segment(id).ops[k]);
    }
    return ops;
  }

  /// Behind the last op of each unit: its parameters are freed, and its gradients reduced once
  /// those before have been added.
  void put_ends(SegmentId id, Insertions& in) {
    std::vector<UnitUse> uses = units_[id].uses;
    std::stable_sort(uses.begin(), uses.end(),
                     [](const UnitUse& a, const UnitUse& b) { return a.end < b.end; });
    std::vector<std::size_t> on_their_way;
    for (const UnitUse& use : uses) {
      std::vector<ProgramOp>& out = in[use.end];
      for (const std::size_t index : use.reshards)
        out.push_back(reshard_op(gathered(id, index).own_piece, bucket(index).piece));
      ProgramOp free;
      free.kind = OpKind::kFree;
      for (const std::size_t index : use.frees) {
        const GatheredBucket of = gathered(id, index);
        free.reads.push_back({of.parameter, 0});
        if (of.by.scales != kNoIndex) free.reads.push_back({of.by.scales, 0});
      }
      if (!free.reads.empty()) out.push_back(std::move(free));
      if (use.reduces.empty()) continue;
      reductions_.put_sums(on_their_way, out);
      for (const std::size_t index : use.reduces) reductions_.put(index, out);
      on_their_way = use.reduces;
    }
    reductions_.put_sums(on_their_way, in.back());
  }

  ProgramOp zero_op(std::size_t index) const {
    ProgramOp op;
    op.kind = OpKind::kZero;
    op.writes.push_back({bucket(index).gradient, 0});
    return op;
  }

  void put_gathers(SegmentId id, Insertions& in) {
    std::vector<const UnitUse*> gathered, freed;  // freed: of those, by this segment
    for (const UnitUse* use : gathering(units_[id].uses)) {
      gathered.push_back(use);
      for (std::size_t k = 0; k < loads_.size(); ++k) {
        if (gathered.size() <= units_[id].loaded[k]) continue;
        const std::ptrdiff_t before = std::ssize(gathered) - 1 - loads_[k].ahead;
        put_load(id, *use, k, 0, in[before < 0 ? 0 : gathered.begin()[before]->first]);
      }
      Place at = std::ssize(gathered) > zero_.prefetch
                     ? (gathered.end() - 1 - zero_.prefetch)[0]->first
                     : 0;
      if (!use->frees.empty()) {
        if (std::ssize(freed) >= zero_.gathers_in_flight)
          at = std::max(at, (freed.end() - zero_.gathers_in_flight)[0]->end);
        freed.push_back(use);
      }
      if (gathered.size() > units_[id].fetched)
        put_gather(id, *use, 0, in[std::min(at, use->first)]);
      put_free_of_gathered(id, *use, in[use->first]);
    }
  }

  /// For the next call, units that it reads first: as far ahead as units of one segment, but not
  /// while the same bucket is there.
  void put_fetches(SegmentId id, const NextCall& next, Insertions& in) {
    const std::vector<const UnitUse*> own = gathering(units_[id].uses), own_freed = freeing(own);
    std::vector<const UnitUse*> wanted = gathering(units_[next.segment].uses);
    wanted.resize(units_[next.segment].ahead());
    const auto place_of = [&](std::size_t i, std::int64_t units_before) {
      const std::ptrdiff_t at = std::ssize(own) + static_cast<std::ptrdiff_t>(i) - units_before;
      return at >= 0 ? own.begin()[at]->first : 0;
    };
    std::ptrdiff_t freed = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      for (std::size_t k = 0; k < loads_.size(); ++k) {
        if (i < units_[next.segment].loaded[k])
          put_load(next.segment, *wanted[i], k, next.slot, in[place_of(i, loads_[k].ahead)]);
      }
      if (i >= units_[next.segment].fetched) continue;
      Place at = place_of(i, zero_.prefetch);
      if (!wanted[i]->frees.empty()) {
        const std::ptrdiff_t before = std::ssize(own_freed) + freed - zero_.gathers_in_flight;
        if (before >= 0) at = std::max(at, own_freed.begin()[before]->end);
        ++freed;
      }
      for (const UnitUse& use : units_[id].uses) {
        const bool same = std::any_of(use.reads.begin(), use.reads.end(), [&](std::size_t index) {
          return holds(wanted[i]->gathers, index);
        });
        if (same) at = std::max(at, use.end);
      }
      put_gather(next.segment, *wanted[i], next.slot, in[at]);
    }
  }

  void put_load(SegmentId id, const UnitUse& use, std::size_t k, std::uint8_t slot,
                std::vector<ProgramOp>& out) {
    for (const std::size_t index : use.gathers) {
      const ValueId to = loaded(id, index, k);
      if (to == kNoIndex) continue;
      const ValueId from = k == 0 ? bucket(index).parameter_shard : loaded(id, index, k - 1);
      out.push_back(host_copy(loads_[k].stream, from, to));
      out.back().reads[0].slot = is_of_step(from) ? 0 : slot;
      out.back().writes[0].slot = is_of_step(to) ? 0 : slot;
    }
  }

  /// For calls of `id`, of the microbatch in this slot.
  void put_gather(SegmentId id, const UnitUse& use, std::uint8_t slot,
                  std::vector<ProgramOp>& out) {
    for (const std::size_t index : use.gathers) {
      const Bucket& of = bucket(index);
      const GatheredBucket to = gathered(id, index);
      std::vector<ProgramOp> ops =
          uses_.has_piece(index, segment(id).phase)
              ? std::vector{collective_op(OpKind::kAllGather, neighbours_, StreamId::kDp, of.piece,
                                          to.target())}
              : gather_ops(draft_.plan, of,
                           {to.cast_shard, loaded(id, index, loads_.size() - 1), to.by},
                           to.target(), shards_of(index));
      for (ProgramOp& op : ops) {
        for (auto* operands : {&op.reads, &op.writes}) {
          for (Operand& operand : *operands) operand.slot = is_of_step(operand.value) ? 0 : slot;
        }
        out.push_back(std::move(op));
      }
    }
  }
  bool is_of_step(ValueId value) const {
    return draft_.program.values[value].scope <= Scope::kStep;
  }

  /// Once the gather has ended, for which the unit waits.
  void put_free_of_gathered(SegmentId id, const UnitUse& use, std::vector<ProgramOp>& out) {
    ProgramOp free;
    free.kind = OpKind::kFree;
    const Phase phase = segment(id).phase;
    for (const std::size_t index : use.gathers) {
      const GatheredBucket of = gathered(id, index);
      if (of.packed != kNoIndex) {
        out.push_back(copy_of_gathered(of, uses_.has_piece(index, phase), shards_of(index)));
        free.reads.push_back({of.packed, 0});
      }
      if (uses_.ends_piece(index, phase)) free.reads.push_back({bucket(index).piece, 0});
      const ValueId cast = of.cast_shard;
      if (cast != kNoIndex && !uses_.has_piece(index, phase)) free.reads.push_back({cast, 0});
      if (finds_amaxes_each_time(draft_.plan, bucket(index)))
        free.reads.push_back({of.by.amaxes, 0});
      for (std::size_t k = 0; k < loads_.size(); ++k) {
        const ValueId copy = loaded(id, index, k);
        if (copy != kNoIndex) free.reads.push_back({copy, 0});
      }
    }
    if (!free.reads.empty()) out.push_back(std::move(free));
  }

  /// A segment that gathers for the next call, too; for one that begins a step a segment of its
  /// own.
  void add_segment_of(const CallSuccession& succession) {
    const SegmentId next = segment_of(draft_, succession.next);
    if (next == kNoIndex || units_[next].ahead() == 0) return;
    const auto& without = succession.without;
    if (std::any_of(without.begin(), without.end(),
                    [&](const CallKind& kind) { return segment_of(draft_, kind) != kNoIndex; }))
      return;
    const std::string name = gather_name(segment(next));
    if (!succession.call) {
      if (draft_.gathers_first.contains(next)) return;
      Segment fetch;
      fetch.name = name;
      fetch.stage = segment(next).stage;
      fetch.phase = Phase::kCommunicate;
      std::vector<const UnitUse*> wanted = gathering(units_[next].uses);
      wanted.resize(units_[next].ahead());
      for (std::size_t k = 0; k < loads_.size(); ++k) {
        wanted.resize(std::max(units_[next].loaded[k], units_[next].fetched));
        for (const UnitUse* use : wanted) put_load(next, *use, k, 0, fetch.ops);
      }
      wanted.resize(units_[next].fetched);
      for (const UnitUse* use : wanted) put_gather(next, *use, 0, fetch.ops);
      draft_.gathers_first[next] = draft_.program.segments.add(std::move(fetch));
      return;
    }
    const SegmentId id = segment_of(draft_, *succession.call);
    if (id == kNoIndex) return;
    const bool same = succession.same_microbatch;
    if (draft_.gathers_ahead.contains({id, next, same})) return;
    Segment with = segment(id);
    with.ops = rewritten(id, NextCall{next, static_cast<std::uint8_t>(same ? 0 : 1)});
    with.name += "+" + name;
    with.slots = same ? 1 : 2;
    draft_.gathers_ahead[{id, next, same}] = draft_.program.segments.add(std::move(with));
  }

  /// "0GATHER_F" of "0F".
  static std::string gather_name(const Segment& of) {
    const std::size_t phase = of.name.find_first_not_of("0123456789");
    return of.name.substr(0, phase) + "GATHER_" + of.name.substr(phase);
  }

  ProgramDraft& draft_;
  const ZeroConfig& zero_;
  const std::vector<UnitLoad> loads_;
  const ParallelConfig& parallel_;
  UnitReductions reductions_;
  GroupId neighbours_;
  UnitUses uses_;
  FetchedCopies copies_;
  Indexed<SegmentId, SegmentUnits> units_;
};

}  // namespace

std::optional<Infeasible> gather_obstacle(const Plan& plan, bool pairs) {
  const bool in_microbatches = shards_parameters(plan.parallel) || reduces_each(plan.parallel);
  if (!pairs || !in_microbatches) return std::nullopt;
  const int stage = plan.parallel.zero.stage;
  const std::string what = stage > 0
                               ? "ZeRO " + std::to_string(stage) + " gathers and reduces around"
                               : std::string("reduce: each adds up the gradients of");
  return Infeasible{
      what + " one microbatch, and schedule " + plan.schedule.method + " runs two together",
      stage > 0 ? "parallel.zero.stage" : "parallel.zero.reduce"};
}

std::vector<CallSuccession> gathering_calls(const Plan& plan, const PipelineSchedule& schedule) {
  const ZeroConfig& zero = plan.parallel.zero;
  const bool ahead = zero.prefetch > 0 || zero.offloads_parameters();
  if (!shards_parameters(plan.parallel) || !ahead) return {};
  return call_successions(schedule, size_of_microbatches(plan.training));
}

std::optional<Infeasible> gather_units(ProgramDraft& draft, const TrainingGraph& training,
                                       const ParallelConfig& parallel,
                                       const std::vector<CallSuccession>& successions) {
  const std::string lost = unmatched_pattern(training, parallel.zero.units);
  if (!lost.empty())
    return Infeasible{"no module matches " + in_quotes(lost), "parallel.zero.units"};
  precompute_amaxes(draft, parallel);
  UnitGathering(draft, parallel).run(successions_of_classes(draft, successions));
  return std::nullopt;
}

}  // namespace trainyard
