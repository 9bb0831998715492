#include "engine/passes/divided_state.h"

#include "engine/passes/plan_mesh.h"

namespace trainyard {

bool reduces_each(const ParallelConfig& parallel) {
  return parallel.zero.reduces_each() && (shards_state(parallel) || parallel.zero.stage == 0);
}

AxisSet divided_over(const Bucket& bucket, const ParallelConfig& parallel) {
  const bool own_samples = parallel.batch_ranks() > 1 && bucket.partial == bucket.replicated;
  const bool divides = shards_state(parallel) && own_samples && bucket.momentum == 0;
  return divides ? bucket.replicated : AxisSet{0};
}

GroupId shard_group_of(Program& program, const Bucket& bucket, const ParallelConfig& parallel) {
  const GroupId replicas = shard_group(program, parallel);
  const AxisSet tensor = divided_over(bucket, parallel);
  if (tensor == 0) return replicas;
  Axes axes = axes_of(tensor);
  const Axes& data = program.groups[replicas].axes;
  axes.insert(axes.end(), data.begin(), data.end());
  return group_over(program, axes);
}

}  // namespace trainyard
