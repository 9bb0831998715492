#include "engine/passes/divided_state.h"

#include "engine/passes/plan_mesh.h"

namespace trainyard {

namespace {

/// Tensor axes in front of those of the replicas.
GroupId with_replicas(Program& program, const Axes& tensor, const ParallelConfig& parallel) {
  const GroupId replicas = shard_group(program, parallel);
  if (tensor.empty()) return replicas;
  Axes axes = tensor;
  const Axes& data = program.groups[replicas].axes;
  axes.insert(axes.end(), data.begin(), data.end());
  return group_over(program, axes);
}

}  // namespace

bool reduces_each(const ParallelConfig& parallel) {
  return parallel.zero.reduces_each() && (shards_state(parallel) || parallel.zero.stage == 0);
}

bool shards_beside_owners(AxisSet replicated, float momentum, const ParallelConfig& parallel) {
  return parallel.zero.stage >= 1 && parallel.zero.by == ZeroConfig::By::kParameter &&
         parallel.dividing_ranks() > 1 && replicated != 0 && momentum == 0;
}

bool shards_state(const Bucket& bucket, const ParallelConfig& parallel) {
  return shards_state(parallel) ||
         shards_beside_owners(bucket.replicated, bucket.momentum, parallel);
}

AxisSet divided_over(const Bucket& bucket, const ParallelConfig& parallel) {
  const bool divides =
      shards_state(bucket, parallel) && parallel.dividing_ranks() > 1 && bucket.momentum == 0;
  return divides ? bucket.replicated : AxisSet{0};
}

AxisSet sliced_over(const Bucket& bucket, const ParallelConfig& parallel) {
  return static_cast<AxisSet>(divided_over(bucket, parallel) & ~bucket.partial);
}

AxisSet summands_over(const Bucket& bucket, const ParallelConfig& parallel) {
  const bool whole =
      parallel.batch_ranks() > 1 && !shards_state(bucket, parallel) && bucket.owner < 0;
  return whole ? bucket.partial
               : static_cast<AxisSet>(divided_over(bucket, parallel) & bucket.partial);
}

GroupId shard_group_of(Program& program, const Bucket& bucket, const ParallelConfig& parallel) {
  Axes tensor = axes_of(sliced_over(bucket, parallel));
  const Axes summands = axes_of(summands_over(bucket, parallel));
  tensor.insert(tensor.end(), summands.begin(), summands.end());
  return with_replicas(program, tensor, parallel);
}

GroupId reduce_group_of(Program& program, const Bucket& bucket, const ParallelConfig& parallel) {
  return with_replicas(program, axes_of(summands_over(bucket, parallel)), parallel);
}

}  // namespace trainyard
