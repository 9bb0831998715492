// How gradients are reduced within a segment, in each microbatch: a unit's of ZeRO-2 and 3 into
// shards, a bucket's of plain replicas whole, and added to those of the microbatches before.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/passes/parameter_buckets.h"
#include "engine/passes/program_draft.h"

namespace trainyard {

class UnitReductions {
 public:
  UnitReductions(ProgramDraft& draft, const ParallelConfig& parallel);

  /// Appends the reduction of a bucket.
  void put(std::size_t bucket, std::vector<ProgramOp>& out) const;
  /// Appends what adds up the sums of these buckets, and frees what has been reduced.
  void put_sums(const std::vector<std::size_t>& of, std::vector<ProgramOp>& out) const;

 private:
  Program& program_;
  const BucketPlan& plan_;
  const ParallelConfig& parallel_;
  GroupId replicas_;
};

}  // namespace trainyard
