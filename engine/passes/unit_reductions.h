// How gradients are reduced within a segment, in each microbatch: a unit's of ZeRO-2 and 3 into
// shards, a bucket's of plain replicas whole, and added to those of the microbatches before.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/passes/parameter_buckets.h"

namespace trainyard {

class UnitReductions {
 public:
  /// `replicas`: replicate_group().
  UnitReductions(const BucketPlan& plan, GroupId replicas) : plan_(plan), replicas_(replicas) {}

  /// Appends the reduction of a bucket; `shards`: shard_group_of().
  void put(std::size_t bucket, GroupId shards, std::vector<ProgramOp>& out) const;
  /// Appends what adds up the sums of these buckets, and frees what has been reduced.
  void put_sums(const std::vector<std::size_t>& of, std::vector<ProgramOp>& out) const;

 private:
  const BucketPlan& plan_;
  GroupId replicas_;
};

}  // namespace trainyard
