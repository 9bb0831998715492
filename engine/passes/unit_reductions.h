// How ZeRO-2 and 3 reduce a unit's gradients within a segment: into shards, which are added to
// those of the microbatches before.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/passes/parameter_buckets.h"

namespace trainyard {

class UnitReductions {
 public:
  /// `shards`, `replicas`: shard_group(), replicate_group().
  UnitReductions(const BucketPlan& plan, GroupId shards, GroupId replicas)
      : plan_(plan),
        shards_(shards),
        replicas_(replicas) {}

  /// Appends the reduction of a bucket.
  void put(std::size_t bucket, std::vector<ProgramOp>& out) const;
  /// Appends what adds up the sums of these buckets, and frees what has been reduced.
  void put_sums(const std::vector<std::size_t>& of, std::vector<ProgramOp>& out) const;

 private:
  const BucketPlan& plan_;
  GroupId shards_, replicas_;
};

}  // namespace trainyard
