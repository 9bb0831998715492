#include "engine/passes/step_reductions.h"

#include <utility>

#include "engine/passes/divided_state.h"
#include "engine/passes/fp8_gathers.h"
#include "engine/passes/plan_mesh.h"
#include "engine/passes/step_segments.h"

namespace trainyard {

ProgramOp collective_op(OpKind kind, GroupId group, StreamId stream, ValueId read, ValueId write) {
  ProgramOp op;
  op.kind = kind;
  op.group = group;
  op.stream = stream;
  op.reads.push_back({read, 0});
  op.writes.push_back({write, 0});
  return op;
}

ValueId add_in_place(Program& program, ValueId of, const std::string& suffix, GroupId group) {
  Value value = program.values[of];
  value.name += suffix;
  TensorSpec spec = spec_of(program, value);
  spec.partial = static_cast<AxisSet>(spec.partial & ~set_of(program.groups[group].axes));
  value.spec = add_spec(program, spec);
  value.alias = Alias{of, 0, kNoIndex};
  return program.values.add(std::move(value));
}

ValueId accumulated_gradient(const Bucket& bucket) {
  return bucket.reduced_each ? bucket.gradient_shard : bucket.gradient;
}

ValueId reduced_storage(const Bucket& bucket) {
  return bucket.packs() && !bucket.reduced_each ? bucket.gradient_packed
                                                : accumulated_gradient(bucket);
}

ProgramOp copy_out_op(GroupId shards, ValueId packed, ValueId parameter) {
  return collective_op(OpKind::kCopyOut, shards, StreamId::kMain, packed, parameter);
}

ProgramOp copy_in_op(GroupId shards, ValueId gradient, ValueId packed) {
  return collective_op(OpKind::kCopyIn, shards, StreamId::kMain, gradient, packed);
}

ProgramOp free_op(ValueId value) {
  ProgramOp free;
  free.kind = OpKind::kFree;
  free.reads.push_back({value, 0});
  return free;
}

std::vector<ProgramOp> gather_ops(const BucketPlan& plan, const Bucket& bucket,
                                  const GatherSource& source, ValueId parameter, GroupId shards) {
  std::vector<ProgramOp> ops;
  ValueId from = bucket.parameter_shard;
  if (source.loaded != kNoIndex) from = source.loaded;
  if (bucket.gathers_fp8) {
    ops = cast_shard_ops(plan, bucket, from, source.cast, source.by, shards);
    from = source.cast;
  } else if (source.cast != kNoIndex) {
    ProgramOp& cast = ops.emplace_back();
    cast.kind = OpKind::kCast;
    cast.reads.push_back({from, 0});
    cast.writes.push_back({source.cast, 0});
    from = source.cast;
  }
  ops.push_back(collective_op(OpKind::kAllGather, shards, StreamId::kDp, from, parameter));
  return ops;
}

ProgramOp reshard_op(ValueId own_piece, ValueId piece) {
  ProgramOp op;
  op.kind = OpKind::kDeviceCopy;
  op.reads.push_back({own_piece, 0});
  op.writes.push_back({piece, 0});
  return op;
}

StepReductions::StepReductions(ProgramDraft& draft, const ParallelConfig& parallel)
    : draft_(draft),
      parallel_(parallel),
      replicas_(replicate_group(draft.program, parallel)) {}

ValueId StepReductions::add(std::size_t index, BucketSegments& segments) {
  Bucket& bucket = draft_.plan.buckets[index];
  const std::string suffix = "." + std::to_string(index);
  ValueId gradient = accumulated_gradient(bucket);
  const AxisSet together = summands_over(bucket, parallel_);
  if (const auto first = static_cast<AxisSet>(bucket.partial & ~together); first != 0) {
    const GroupId group = group_over(program(), axes_of(first));
    const ValueId sum = in_bucket(bucket, gradient, ".tp_sum", group, bucket.reduced_each);
    segments.reduce_tensor =
        add_step_segment(program(), bucket.stage, "REDUCE_TP" + suffix, Phase::kCommunicate,
                         {collective_op(OpKind::kAllReduce, group, StreamId::kTp, gradient, sum)});
    gradient = sum;
  }
  if (!bucket.tied.empty() && unlike()) return over_unlike_tied(bucket, gradient, suffix, segments);
  const bool several =
      parallel_.gradient_ranks() > 1 || together != 0 || divided_over(bucket, parallel_) != 0;
  if (several && !bucket.reduced_each) gradient = over_replicas(bucket, gradient, suffix, segments);
  if (!bucket.tied.empty()) {
    const GroupId group = tied_group(bucket.tied);
    const ValueId sum =
        in_bucket(bucket, gradient, ".tied_sum", group, shards_state(bucket, parallel_));
    segments.reduce_tied = add_step_segment(
        program(), bucket.stage, "REDUCE_TIED" + suffix, Phase::kCommunicate,
        {collective_op(OpKind::kAllReduce, group, StreamId::kNorm, gradient, sum)});
    gradient = sum;
  }
  return gradient;
}

/// The same in a bucket's gradient, or in the rank's shard of it.
ValueId StepReductions::in_bucket(Bucket& bucket, ValueId of, const std::string& suffix,
                                  GroupId group, bool sharded) {
  const ValueId id = add_in_place(program(), of, suffix, group);
  (sharded ? bucket.shards : bucket.whole).push_back(id);
  return id;
}

/// Among those that divide the bucket, then over groups of these. A slice that nobody else has a
/// summand of is the rank's shard as it is.
ValueId StepReductions::over_replicas(Bucket& bucket, ValueId gradient, const std::string& suffix,
                                      BucketSegments& segments) {
  const bool scatter = shards_state(bucket, parallel_);
  const bool grouped = scatter && replicas_ != kNoIndex;
  const GroupId group = reduce_group_of(program(), bucket, parallel_);
  std::vector<ProgramOp> ops;
  const auto add_segment = [&] {
    segments.reduce = add_step_segment(program(), bucket.stage, "REDUCE_GRAD" + suffix,
                                       Phase::kCommunicate, std::move(ops));
  };
  if (bucket.packs()) {
    program().values[bucket.gradient_packed].spec = program().values[gradient].spec;
    const GroupId shards = shard_group_of(program(), bucket, parallel_);
    ops.push_back(copy_in_op(shards, gradient, bucket.gradient_packed));
    ops.push_back(free_op(bucket.gradient));
    gradient = bucket.gradient_packed;
  }
  if (bucket.gradient_slice != kNoIndex) gradient = bucket.gradient_slice;
  if (program().groups[group].axes.empty()) {
    if (!ops.empty()) add_segment();
    return bucket.gradient_shard;
  }
  const ValueId reduced = scatter ? bucket.gradient_shard : gradient;
  ValueId sum = in_bucket(bucket, reduced, grouped ? ".dp_part" : ".dp_sum", group, scatter);
  Value& value = program().values[sum];
  if (bucket.owner >= 0) {
    value.owner = static_cast<std::int16_t>(bucket.owner);
    value.spec = program().values[bucket.parameter_shard].spec;
  }
  const OpKind kind = scatter             ? OpKind::kReduceScatter
                      : bucket.owner >= 0 ? OpKind::kReduce
                                          : OpKind::kAllReduce;
  ops.push_back(collective_op(kind, group, StreamId::kDp, gradient, sum));
  if (grouped) {
    TensorSpec spec = spec_of(program(), value);
    spec.partial = static_cast<AxisSet>(spec.partial | set_of(program().groups[replicas_].axes));
    value.spec = add_spec(program(), spec);
    const ValueId all = in_bucket(bucket, sum, ".dp_sum", replicas_, true);
    ops.push_back(collective_op(OpKind::kAllReduce, replicas_, StreamId::kDp, sum, all));
    sum = all;
  }
  add_segment();
  return sum;
}

/// Replicas of unlike numbers have no partner each at the other pipeline ranks: all that share the
/// weights add up what each has, and with ZeRO-1 each takes its shard, or the owner all.
ValueId StepReductions::over_unlike_tied(Bucket& bucket, ValueId gradient,
                                         const std::string& suffix, BucketSegments& segments) {
  const GroupId group = tied_group(bucket.tied);
  const ValueId sum = in_bucket(bucket, gradient, ".tied_sum", group, false);
  std::vector<ProgramOp> ops = {
      collective_op(OpKind::kAllReduce, group, StreamId::kNorm, gradient, sum)};
  ValueId reduced = sum;
  if (bucket.packs()) {
    reduced = bucket.gradient_packed;
    program().values[reduced].spec = program().values[sum].spec;
    ops.push_back(copy_in_op(shard_group(program(), parallel_), sum, reduced));
    ops.push_back(free_op(bucket.gradient));
  }
  segments.reduce_tied = add_step_segment(program(), bucket.stage, "REDUCE_TIED" + suffix,
                                          Phase::kCommunicate, std::move(ops));
  if (bucket.owner >= 0) {
    Value own = program().values[sum];
    own.name += "_own";
    own.alias = Alias{sum, 0, kNoIndex};
    own.owner = static_cast<std::int16_t>(bucket.owner);
    own.spec = program().values[bucket.parameter_shard].spec;
    bucket.whole.push_back(program().values.add(std::move(own)));
    return bucket.whole.back();
  }
  if (!shards_state(bucket, parallel_)) return sum;
  Value shard = program().values[bucket.gradient_shard];
  shard.name = program().values[sum].name + "_shard";
  shard.alias = Alias{reduced, 0, shard_group(program(), parallel_)};
  bucket.shards.push_back(program().values.add(std::move(shard)));
  return bucket.shards.back();
}

GroupId StepReductions::tied_group(const std::vector<std::int32_t>& members) {
  const auto known = tied_.find(members);
  if (known != tied_.end()) return known->second;
  Axes axes = {stage_axis(program().mesh)};
  if (unlike()) {
    const Axes& data = program().groups[kDataGroup].axes;
    axes.insert(axes.end(), data.begin(), data.end());
  }
  const GroupId id = program().groups.add({"tied" + std::to_string(tied_.size()), axes, members});
  tied_.emplace(members, id);
  return id;
}

}  // namespace trainyard
