// Which ranks divide what ZeRO divides of a bucket. They are the replicas; and where the ranks of a
// tensor group have samples of their own, these as well of what they all hold: the state of a
// parameter that method smp does not distribute lies on one rank of its group in each replica
// (Karakus et al. 2021, arXiv:2111.05972, appendix I.1: "across the data parallel processes which
// hold the same parameter").
#pragma once

#include "engine/passes/parameter_buckets.h"

namespace trainyard {

/// Whether replicas add up each microbatch's gradients by themselves: into shards, as stages 2 and
/// 3 say, or whole ones, as ZeroConfig::reduces_whole_each has them
/// (torch.nn.parallel.DistributedDataParallel without no_sync).
bool reduces_each(const ParallelConfig& parallel);

/// The tensor axes among them; 0: the replicas alone.
AxisSet divided_over(const Bucket& bucket, const ParallelConfig& parallel);

/// All of them, in the order of the shards.
GroupId shard_group_of(Program& program, const Bucket& bucket, const ParallelConfig& parallel);

}  // namespace trainyard
