#include "engine/passes/step_segments.h"

#include <map>
#include <string>
#include <utility>

#include "engine/base/sort_unique.h"
#include "engine/passes/bucket_updates.h"
#include "engine/passes/divided_state.h"
#include "engine/passes/fp8_gathers.h"
#include "engine/passes/plan_mesh.h"
#include "engine/passes/step_reductions.h"
#include "engine/program/add_attrs.h"

namespace trainyard {

namespace {

class StepBuilder {
 public:
  StepBuilder(ProgramDraft& draft, const ParallelConfig& parallel, const TrainingConfig& config,
              const SoftwareProfile& software)
      : draft_(draft),
        parallel_(parallel),
        config_(config),
        software_(software),
        shards_(shard_group(draft.program, parallel)) {}

  StepSegments run() {
    const std::int32_t stages = draft_.num_stages;
    for (std::int32_t stage = 0; stage < stages; ++stage) out_.zero.push_back(add_zero(stage));
    out_.buckets.resize(draft_.plan.buckets.size());
    StepReductions reductions(draft_, parallel_);
    for (std::size_t i = 0; i < out_.buckets.size(); ++i) {
      reduced_.push_back(reductions.add(i, out_.buckets[i]));
      if (draft_.plan.buckets[i].on_host) out_.buckets[i].copy_out = add_copy_out(i);
    }
    find_completion();
    add_norm_group();
    for (std::int32_t rank = 0; rank < draft_.num_ranks; ++rank) {
      out_.gather.push_back(add_gather(rank));
      out_.loss.push_back(add_loss(rank));
      out_.norm.push_back(add_norm(rank));
      out_.update.push_back(add_update(rank));
    }
    return std::move(out_);
  }

 private:
  Program& program() { return draft_.program; }
  bool unlike() const { return !parallel_.replicas.empty(); }

  SegmentId add_segment(std::int32_t stage, const std::string& name, Phase phase,
                        std::vector<ProgramOp> ops) {
    return add_step_segment(program(), stage, name, phase, std::move(ops));
  }

  /// A value of one element, of which each rank of `group` has a summand.
  ValueId summand(const std::string& name, GroupId group) {
    Value value;
    value.name = name;
    TensorSpec spec = replicated_spec(1);
    for (const AxisId axis : program().groups[group].axes) {
      if (axis != stage_axis(program().mesh)) set_state(spec, axis, AxisState::kPartial);
    }
    value.spec = add_spec(program(), spec);
    value.dims = {Dim{1, 1, -1}};
    value.dtype = config_.precision == DType::kFp64 ? DType::kFp64 : DType::kFp32;
    value.scope = Scope::kStep;
    value.memory = MemoryClass::kGradient;
    program().values.push_back(std::move(value));
    return ValueId(program().values.size() - 1);
  }

  /// Units that several microbatches have gathered at once are so for the whole step.
  bool is_gathered_once(const Bucket& bucket) {
    return program().values[bucket.parameter].scope == Scope::kStep;
  }
  /// The same of pieces, which are all that stays of a unit then.
  bool lies_in_pieces(const Bucket& bucket) {
    return bucket.resharded && program().values[bucket.piece].scope == Scope::kStep;
  }
  SegmentId add_gather(std::int32_t rank) {
    std::vector<ProgramOp> ops;
    const auto& own = draft_.plan.of_rank[rank];
    std::vector<ValueId> loaded;  // the last copies on the way that are not free again
    // Buckets stand in the order of the backward.
    for (auto i = own.rbegin(); i != own.rend(); ++i) {
      const Bucket& bucket = draft_.plan.buckets[*i];
      const bool in_pieces = lies_in_pieces(bucket);
      if (!in_pieces && !is_gathered_once(bucket)) continue;
      const bool reads = bucket.shard_read != kNoIndex;
      if (reads)
        ops.push_back(host_copy(StreamId::kNvmeIn, bucket.parameter_shard, bucket.shard_read));
      if (bucket.away)
        ops.push_back(host_copy(StreamId::kH2d, reads ? bucket.shard_read : bucket.parameter_shard,
                                bucket.loaded));
      const ValueId into = bucket.packs() ? bucket.parameter_packed : bucket.parameter;
      const GatherSource source = {bucket.cast_shard, bucket.loaded, bucket.by};
      const GroupId shards = shard_group_of(program(), bucket, parallel_);
      for (ProgramOp& op : gather_ops(draft_.plan, bucket, source, into, shards))
        ops.push_back(std::move(op));
      if (bucket.packs()) {
        ops.push_back(copy_out_op(shards, into, bucket.parameter));
        ops.push_back(free_op(into));
      }
      if (in_pieces) ops.push_back(reshard_op(bucket.own_piece, bucket.piece));
      ProgramOp free;
      free.kind = OpKind::kFree;
      if (in_pieces) free.reads.push_back({bucket.parameter, 0});
      if (in_pieces && bucket.cast_shard != kNoIndex) free.reads.push_back({bucket.cast_shard, 0});
      // One behind the other: the next copy does not wait for this one's gather.
      for (const ValueId before : loaded) free.reads.push_back({before, 0});
      loaded.clear();
      if (bucket.away) loaded.push_back(bucket.loaded);
      if (reads) loaded.push_back(bucket.shard_read);
      if (!free.reads.empty()) ops.push_back(std::move(free));
    }
    if (ops.empty()) return kNoIndex;
    if (!loaded.empty()) {
      ProgramOp& free = ops.emplace_back();
      free.kind = OpKind::kFree;
      for (const ValueId last : loaded) free.reads.push_back({last, 0});
    }
    return add_segment(rank, "GATHER", Phase::kPrepare, std::move(ops));
  }

  bool last_rank(std::int32_t rank) const { return rank == draft_.forms.back().rank; }

  SegmentId add_zero(std::int32_t stage) {
    ProgramOp zero;
    zero.kind = OpKind::kZero;
    for (const std::size_t i : draft_.plan.of_stage[stage]) {
      zero.writes.push_back({accumulated_gradient(draft_.plan.buckets[i]), 0});
    }
    if (stage + 1 == draft_.num_stages && draft_.loss != kNoIndex) {
      zero.writes.push_back({draft_.loss, 0});
    }
    std::vector<ProgramOp> ops;
    if (!zero.writes.empty()) ops.push_back(std::move(zero));
    const std::vector<ProgramOp>& more = draft_.before_step[stage];
    ops.insert(ops.end(), more.begin(), more.end());
    return add_segment(stage, "ZERO", Phase::kPrepare, std::move(ops));
  }

  /// Behind which op each segment of the backward has added to a bucket all that it does.
  void find_completion() {
    std::map<ValueId, std::size_t> bucket_of;
    for (std::size_t i = 0; i < draft_.plan.buckets.size(); ++i) {
      bucket_of[accumulated_gradient(draft_.plan.buckets[i])] = i;
    }
    std::vector<SegmentId> adding;
    for (const auto& of_size : draft_.stages) {
      for (const StageSegments& stage : of_size)
        adding.insert(adding.end(), {stage.backward[0], stage.backward[1], stage.input[0],
                                     stage.input[1], stage.weight});
    }
    for (const auto& [parts, pair] : draft_.pairs) adding.push_back(pair);
    for (const auto& [calls, ahead] : draft_.gathers_ahead) adding.push_back(ahead);
    sort_unique(adding);
    for (const SegmentId id : adding) {
      if (id == kNoIndex) continue;
      const auto& ops = program().segments[id].ops;
      for (std::size_t k = 0; k < ops.size(); ++k) {
        for (const Operand& operand : ops[k].accumulates) {
          const auto it = bucket_of.find(storage_root(program(), operand.value));
          if (it == bucket_of.end()) continue;
          auto& added_by = out_.buckets[it->second].added_by;
          if (added_by.empty() || added_by.back().first != id) added_by.emplace_back(id, 0);
          added_by.back().second = static_cast<std::uint32_t>(k + 1);
        }
      }
    }
  }

  SegmentId add_copy_out(std::size_t i) {
    const Bucket& bucket = draft_.plan.buckets[i];
    return add_segment(bucket.stage, "OFFLOAD_GRAD." + std::to_string(i), Phase::kCommunicate,
                       {host_copy(StreamId::kD2h, reduced_[i], bucket.host_gradient)});
  }

  bool takes_norm() const {
    return config_.clip_norm > 0 || config_.precision == DType::kFp16 || software_.always_norm;
  }

  void add_norm_group() {
    // Gradients differ along tensor and pipeline ranks, and along data ranks once each has its own
    // part; replicas of unlike numbers are in it, or the sum would not reach each.
    Axes axes;
    const auto add = [&](const Axes& more) { axes.insert(axes.end(), more.begin(), more.end()); };
    if (const AxisId stages = stage_axis(program().mesh); stages != kNoAxis) axes.push_back(stages);
    if (shards_state(parallel_)) {
      add(program().groups[shards_].axes);
    } else if (owns_parameters(parallel_) || unlike()) {
      add(program().groups[kDataGroup].axes);
    }
    add(program().groups[kTensorGroup].axes);
    program().groups.push_back({"norm", axes, {}});
    norm_group_ = GroupId(program().groups.size() - 1);
  }

  SegmentId add_loss(std::int32_t rank) {
    if (!last_rank(rank) || draft_.loss == kNoIndex) return kNoIndex;
    std::vector<ProgramOp> ops;
    ValueId loss = draft_.loss;
    const Axes& tensor = program().groups[kTensorGroup].axes;
    const AxisSet partial = spec_of(program(), program().values[loss]).partial;
    if (const Axes axes = axes_of(static_cast<AxisSet>(partial & set_of(tensor))); !axes.empty()) {
      const GroupId group = group_over(program(), axes);
      const ValueId sum = add_in_place(program(), loss, ".tp_sum", group);
      ops.push_back(collective_op(OpKind::kAllReduce, group, StreamId::kNorm, loss, sum));
      loss = sum;
    }
    if (parallel_.gradient_ranks() > 1) {
      const ValueId sum = add_in_place(program(), loss, ".dp_sum", kDataGroup);
      ops.push_back(collective_op(OpKind::kAllReduce, kDataGroup, StreamId::kNorm, loss, sum));
    }
    ProgramOp free;
    free.kind = OpKind::kFree;
    free.reads.push_back({draft_.loss, 0});
    ops.push_back(std::move(free));
    return add_segment(rank, "LOSS", Phase::kUpdate, std::move(ops));
  }

  SegmentId add_norm(std::int32_t rank) {
    norm_.push_back(kNoIndex);
    if (!takes_norm()) return kNoIndex;
    const ValueId sum = summand("norm_sq@" + std::to_string(rank), norm_group_);
    const ValueId total = add_in_place(program(), sum, ".all", norm_group_);
    norm_.back() = total;
    std::vector<ProgramOp> ops(1);
    ops[0].kind = OpKind::kZero;
    ops[0].writes.push_back({sum, 0});
    for (const std::size_t i : draft_.plan.of_rank[rank]) {
      const Bucket& bucket = draft_.plan.buckets[i];
      // Weights shared by several pipeline ranks count once, on the first of them.
      if (!bucket.tied.empty() && bucket.tied.front() != rank) continue;
      if (bucket.momentum > 0) continue;
      ProgramOp op;
      op.kind = OpKind::kSumSquares;
      OpAttrs attrs;
      const auto held = static_cast<AxisSet>(bucket.replicated & ~divided_over(bucket, parallel_));
      std::int64_t alike = group_size(program().mesh, axes_of(held));
      const bool all_have_it = !shards_state(bucket, parallel_) && bucket.owner < 0;
      if (unlike() && all_have_it)
        alike *= std::int64_t{parallel_.replicas_at(rank)} * parallel_.context.degree;
      attrs.share = 1.0F / static_cast<float>(alike);
      op.attrs = add_attrs(program(), attrs);
      op.reads.push_back({reduced_[i], 0});
      op.accumulates.push_back({sum, 0});
      ops.push_back(std::move(op));
    }
    ops.push_back(collective_op(OpKind::kAllReduce, norm_group_, StreamId::kNorm, sum, total));
    ops.back().host_sync = software_.clip_reads_norm;
    return add_segment(rank, "NORM", Phase::kUpdate, std::move(ops));
  }

  SegmentId add_update(std::int32_t rank) {
    std::vector<ProgramOp> ops;
    ProgramOp free;
    free.kind = OpKind::kFree;
    for (std::int32_t stage = 0; stage < draft_.num_stages; ++stage) {
      if (draft_.forms[stage].rank != rank) continue;
      const std::vector<ProgramOp>& first = draft_.behind_step[stage];
      ops.insert(ops.end(), first.begin(), first.end());
      free_of_step(draft_.before_step[stage], free);
    }
    const ValueId norm = norm_[rank];
    BucketUpdates updates(program(), config_, software_, norm, ops);
    if (norm != kNoIndex && parallel_.zero.offloads_state()) updates.tell_host(rank);
    for (const std::size_t i : draft_.plan.of_rank[rank]) {
      const Bucket& bucket = draft_.plan.buckets[i];
      updates.add(bucket, reduced_[i]);
      spread_update(bucket, ops);
      free.reads.push_back({reduced_storage(bucket), 0});
      if (lies_in_pieces(bucket)) free.reads.push_back({bucket.piece, 0});
      if (!is_gathered_once(bucket)) continue;
      free.reads.push_back({bucket.parameter, 0});
      if (bucket.cast_shard != kNoIndex) free.reads.push_back({bucket.cast_shard, 0});
      if (bucket.gathers_fp8) free.reads.push_back({bucket.by.scales, 0});
      if (finds_amaxes_each_time(draft_.plan, bucket)) free.reads.push_back({bucket.by.amaxes, 0});
    }
    if (norm != kNoIndex) free.reads.push_back({storage_root(program(), norm), 0});
    updates.add_left(free);
    if (!free.reads.empty()) ops.push_back(std::move(free));
    return add_segment(rank, "UPDATE", Phase::kUpdate, std::move(ops));
  }

  /// To the replicas that have no part in the update.
  void spread_update(const Bucket& bucket, std::vector<ProgramOp>& ops) {
    if (bucket.owner >= 0) {
      ops.push_back(collective_op(OpKind::kBroadcast, kDataGroup, StreamId::kDp,
                                  bucket.parameter_shard, bucket.parameter));
    } else if (bucket.parameter_shard != kNoIndex && !bucket.is_gathered()) {
      const GroupId shards = shard_group_of(program(), bucket, parallel_);
      if (program().groups[shards].axes.empty()) return;  // of one rank
      ops.push_back(collective_op(OpKind::kAllGather, shards, StreamId::kDp, bucket.parameter_shard,
                                  bucket.parameter));
    }
  }

  /// What ops at the begin of a step have made for it.
  void free_of_step(const std::vector<ProgramOp>& made_by, ProgramOp& free) const {
    for (const ProgramOp& op : made_by) {
      for (const Operand& written : op.writes) {
        const Value& value = draft_.program.values[written.value];
        if (value.scope == Scope::kStep && !value.alias) free.reads.push_back(written);
      }
    }
  }

  ProgramDraft& draft_;
  const ParallelConfig& parallel_;
  const TrainingConfig& config_;
  const SoftwareProfile& software_;
  GroupId shards_;  // shard_group()
  StepSegments out_;
  std::vector<ValueId> reduced_;  // [bucket]: its gradient after all reductions
  std::vector<ValueId> norm_;     // [pipeline rank]
  GroupId norm_group_ = kNoIndex;
};

}  // namespace

SegmentId add_step_segment(Program& program, std::int32_t stage, const std::string& name,
                           Phase phase, std::vector<ProgramOp> ops) {
  Segment segment;
  segment.name = std::to_string(stage) + name;
  segment.stage = stage;
  segment.phase = phase;
  segment.slots = 0;
  segment.ops = std::move(ops);
  program.segments.push_back(std::move(segment));
  return SegmentId(program.segments.size() - 1);
}

void add_step_segments(ProgramDraft& draft, const ParallelConfig& parallel,
                       const TrainingConfig& config, const SoftwareProfile& software) {
  draft.step = StepBuilder(draft, parallel, config, software).run();
}

}  // namespace trainyard
