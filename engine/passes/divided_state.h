// Which ranks divide what ZeRO divides of a bucket. They are the replicas; and where the method
// says so (ParallelConfig::divides_alike) the ranks of a tensor group as well, of what they all
// have: the state of a parameter that method smp does not distribute lies on one rank of its group
// in each replica (Karakus et al. 2021, arXiv:2111.05972, appendix I.1: "across the data parallel
// processes which hold the same parameter").
#pragma once

#include "engine/passes/parameter_buckets.h"

namespace trainyard {

/// Whether replicas add up each microbatch's gradients by themselves: into shards, as stages 2 and
/// 3 say, or whole ones, as ZeroConfig::reduces_whole_each has them
/// (torch.nn.parallel.DistributedDataParallel without no_sync).
bool reduces_each(const ParallelConfig& parallel);

/// Whether the state of what ranks along tensor axes `replicated` have alike lies in shards beside
/// owners of whole parameters (ZeRO-1 by parameter): what a tensor group has alike has no one owner
/// among the replicas, since all ranks of the group would be that; all that hold it divide it.
bool shards_beside_owners(AxisSet replicated, float momentum, const ParallelConfig& parallel);

/// Whether each rank keeps the state of its shard of the bucket.
bool shards_state(const Bucket& bucket, const ParallelConfig& parallel);

/// The tensor axes among them; 0: the replicas alone.
AxisSet divided_over(const Bucket& bucket, const ParallelConfig& parallel);

/// All of them, in the order of the shards.
GroupId shard_group_of(Program& program, const Bucket& bucket, const ParallelConfig& parallel);

/// Tensor axes among these along which gradients are alike, as of ranks with the same samples: a
/// rank takes its slice of them. They come first in the order of the shards, so that a slice has
/// those of the ranks that reduce it.
AxisSet sliced_over(const Bucket& bucket, const ParallelConfig& parallel);

/// Tensor axes whose ranks have summands of a gradient and add them up with the replicas at once:
/// those that divide it, and, where nothing is divided, all ranks with samples of their own ("the
/// tensor-parallel devices operate in a regular data-parallel manner", section 5.2 there).
AxisSet summands_over(const Bucket& bucket, const ParallelConfig& parallel);

/// These ranks and the replicas, of a slice or of the whole gradient. Of no axes: nobody.
GroupId reduce_group_of(Program& program, const Bucket& bucket, const ParallelConfig& parallel);

}  // namespace trainyard
