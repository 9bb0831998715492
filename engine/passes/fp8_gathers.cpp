#include "engine/passes/fp8_gathers.h"

#include <string>
#include <utility>

#include "engine/passes/step_reductions.h"
#include "engine/program/add_attrs.h"

namespace trainyard {

namespace {

class ScaleValues {
 public:
  ScaleValues(const TrainingGraph& training, const ParallelConfig& parallel,
              const TrainingConfig& config, Program& program, BucketPlan& plan)
      : training_(training),
        config_(config),
        at_once_(parallel.zero.precomputes_scales),
        program_(program),
        plan_(plan) {
    const AxisSet axes =
        static_cast<AxisSet>(set_of(program.groups[shard_group(program, parallel)].axes) |
                             set_of(program.groups[kTensorGroup].axes));
    plan.amax_group = group_over(program, axes_of(axes));
    OpAttrs attrs;
    attrs.maximum = true;
    plan.amax_attrs = add_attrs(program, attrs);
    TensorSpec spec = replicated_spec(1);
    whole_ = add_spec(program, spec);
    spec.partial = axes;
    spec.maximum = true;
    candidates_ = add_spec(program, spec);
  }

  void add(std::size_t index) {
    Bucket& bucket = plan_.buckets[index];
    const std::string name = "b" + std::to_string(index);
    const std::int64_t count = std::ssize(bucket.parameters);
    if (at_once_) {
      add_to_stage(bucket, name, count);
    } else {
      bucket.by.amaxes = value(name + ".amaxes", count, config_.precision, candidates_);
      bucket.by.all_amaxes = view(name + ".amaxes.all", bucket.by.amaxes, 0, count, whole_);
    }
    bucket.by.scales = value(name + ".scales", count, DType::kFp32, whole_);
    for (std::int64_t i = 0; i < count; ++i) {
      const TensorId scale = training_.gathered_scale[bucket.parameters.begin()[i]];
      const ValueId in = view(training_.graph.tensors[scale].name, bucket.by.scales, i, 1, whole_);
      plan_.place(scale, bucket.rank, in);
    }
  }

 private:
  static Dims dims(std::int64_t extent) { return {Dim{extent, extent, -1}}; }

  ValueId value(const std::string& name, std::int64_t count, DType type, SpecId spec) {
    Value out;
    out.name = name;
    out.dims = dims(count);
    out.dtype = type;
    out.spec = spec;
    out.scope = Scope::kStep;
    out.memory = MemoryClass::kBuffer;
    return program_.values.add(std::move(out));
  }

  ValueId view(const std::string& name, ValueId in, std::int64_t from, std::int64_t count,
               SpecId spec) {
    Value out = program_.values[in];
    out.name = name;
    out.dims = dims(count);
    out.spec = spec;
    out.alias = Alias{in, from, kNoIndex};
    return program_.values.add(std::move(out));
  }

  /// Behind those of the stage's buckets before it.
  void add_to_stage(Bucket& bucket, const std::string& name, std::int64_t count) {
    const auto [known, fresh] = plan_.amaxes_of_stage.try_emplace(bucket.stage);
    auto& [own, all] = known->second;
    if (fresh) {
      const std::string of_stage = "weights@" + std::to_string(bucket.stage) + ".amaxes";
      own = value(of_stage, 0, config_.precision, candidates_);
      all = view(of_stage + ".all", own, 0, 0, whole_);
    }
    const std::int64_t from = num_elements(program_.values[own].dims);
    for (const ValueId id : {own, all}) program_.values[id].dims = dims(from + count);
    bucket.by.amaxes = view(name + ".amaxes", own, from, count, candidates_);
    bucket.by.all_amaxes = view(name + ".amaxes.all", all, from, count, whole_);
  }

  const TrainingGraph& training_;
  const TrainingConfig& config_;
  bool at_once_;
  Program& program_;
  BucketPlan& plan_;
  SpecId whole_, candidates_;
};

ProgramOp amax_op(ValueId shard, GroupId shards) {
  ProgramOp op;
  op.kind = OpKind::kAmax;
  op.group = shards;
  op.reads.push_back({shard, 0});
  return op;
}

ProgramOp largest_op(const BucketPlan& plan, ValueId own, ValueId all) {
  // On a stream of its own: it does not wait for gathers that are under way.
  ProgramOp op = collective_op(OpKind::kAllReduce, plan.amax_group, StreamId::kNorm, own, all);
  op.attrs = plan.amax_attrs;
  return op;
}

}  // namespace

void add_gathered_scales(const TrainingGraph& training, const ParallelConfig& parallel,
                         const TrainingConfig& config, Program& program, BucketPlan& plan) {
  if (training.gathered_scale.empty()) return;
  ScaleValues values(training, parallel, config, program, plan);
  for (std::size_t i = 0; i < plan.buckets.size(); ++i) {
    if (plan.buckets[i].gathers_fp8) values.add(i);
  }
}

bool finds_amaxes_each_time(const BucketPlan& plan, const Bucket& bucket) {
  return bucket.gathers_fp8 && !plan.amaxes_of_stage.contains(bucket.stage);
}

std::vector<ProgramOp> cast_shard_ops(const BucketPlan& plan, const Bucket& bucket, ValueId shard,
                                      ValueId cast, const GatheredScales& by, GroupId shards) {
  std::vector<ProgramOp> ops;
  if (finds_amaxes_each_time(plan, bucket)) {
    ops.push_back(amax_op(shard, shards));
    ops.back().writes.push_back({by.amaxes, 0});
    ops.push_back(largest_op(plan, by.amaxes, by.all_amaxes));
  }
  ProgramOp& op = ops.emplace_back();
  op.kind = OpKind::kQuantize;
  op.group = shards;
  op.reads = {{shard, 0}, {by.all_amaxes, 0}};
  op.writes = {{cast, 0}, {by.scales, 0}};
  return ops;
}

void precompute_amaxes(ProgramDraft& draft, const ParallelConfig& parallel) {
  const GroupId shards = shard_group(draft.program, parallel);
  for (const auto& [stage, amaxes] : draft.plan.amaxes_of_stage) {
    std::vector<ProgramOp>& ops = draft.before_step[stage];
    ProgramOp& zero = ops.emplace_back();
    zero.kind = OpKind::kZero;
    zero.writes.push_back({amaxes.own, 0});
    for (const std::size_t i : draft.plan.of_stage[stage]) {
      const Bucket& bucket = draft.plan.buckets[i];
      if (!bucket.gathers_fp8) continue;
      ops.push_back(amax_op(bucket.parameter_shard, shards));
      ops.back().accumulates.push_back({bucket.by.amaxes, 0});
    }
    ops.push_back(largest_op(draft.plan, amaxes.own, amaxes.all));
  }
}

}  // namespace trainyard
