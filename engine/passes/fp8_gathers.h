// Weights that ZeRO-3 gathers in 8 bits: torchtitan's enable_fsdp_float8_all_gather.
//
// Weights that FP8 products alone read have buckets of their own, of which a rank casts its shard
// before the gather; what has been gathered is what products read, forward and backward, so that
// nothing is cast behind it:
//
//   main  amax b2.param_shard -> b2.amaxes                  # one number of each weight
//   norm  all_reduce:shards b2.amaxes -> b2.amaxes.all      # the largest
//   main  quantize b2.param_shard b2.amaxes.all -> b2.param_cast b2.scales
//   dp    all_gather b2.param_cast -> b2.param
//
// With precomputed scales (precompute_float8_dynamic_scale_for_fsdp) the first two are once per
// step and stage, of all its weights together: weights change between steps alone. Largest elements
// have the type that weights have where they are not gathered so, and what is cast is rounded to
// it: numbers are those that one rank has.
#pragma once

#include <vector>

#include "engine/passes/program_draft.h"
#include "engine/passes/training_graph.h"

namespace trainyard {

/// Adds the values of all buckets that are gathered so, and places the scales of `training`.
void add_gathered_scales(const TrainingGraph& training, const ParallelConfig& parallel,
                         const TrainingConfig& config, Program& program, BucketPlan& plan);

/// Whether each gather of the bucket looks for the largest elements first.
bool finds_amaxes_each_time(const BucketPlan& plan, const Bucket& bucket);

/// What casts a bucket's shard, which lies in `shard`, to `cast`.
std::vector<ProgramOp> cast_shard_ops(const BucketPlan& plan, const Bucket& bucket, ValueId shard,
                                      ValueId cast, const GatheredScales& by, GroupId shards);

/// With precomputed scales: finds the largest elements at the begin of a step.
void precompute_amaxes(ProgramDraft& draft, const ParallelConfig& parallel);

}  // namespace trainyard
