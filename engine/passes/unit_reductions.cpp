#include "engine/passes/unit_reductions.h"

#include <utility>

#include "engine/passes/step_reductions.h"

namespace trainyard {

void UnitReductions::put(std::size_t bucket, GroupId shards, std::vector<ProgramOp>& out) const {
  const Bucket& of = plan_.buckets[bucket];
  if (of.gradient_part == kNoIndex) {
    out.push_back(
        collective_op(OpKind::kAllReduce, kDataGroup, StreamId::kDp, of.gradient, of.gradient_sum));
    return;
  }
  if (of.packs()) {
    out.push_back(copy_in_op(shards, of.gradient, of.gradient_packed));
    out.push_back(free_op(of.gradient));
  }
  out.push_back(collective_op(OpKind::kReduceScatter, shards, StreamId::kDp,
                              of.packs() ? of.gradient_packed : of.gradient, of.gradient_part));
  if (replicas_ == kNoIndex) return;
  out.push_back(collective_op(OpKind::kAllReduce, replicas_, StreamId::kDp, of.gradient_part,
                              of.gradient_sum));
}

void UnitReductions::put_sums(const std::vector<std::size_t>& of,
                              std::vector<ProgramOp>& out) const {
  ProgramOp free;
  free.kind = OpKind::kFree;
  for (const std::size_t i : of) {
    const Bucket& bucket = plan_.buckets[i];
    ProgramOp add;
    add.kind = OpKind::kAdd;
    add.reads.push_back({bucket.gradient_sum, 0});
    add.accumulates.push_back({bucket.gradient_shard, 0});
    out.push_back(std::move(add));
    free.reads.push_back({bucket.packs() ? bucket.gradient_packed : bucket.gradient, 0});
    if (bucket.gradient_part != kNoIndex) free.reads.push_back({bucket.gradient_part, 0});
  }
  if (!free.reads.empty()) out.push_back(std::move(free));
}

}  // namespace trainyard
