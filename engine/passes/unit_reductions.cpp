#include "engine/passes/unit_reductions.h"

#include <utility>

#include "engine/passes/divided_state.h"
#include "engine/passes/plan_mesh.h"
#include "engine/passes/step_reductions.h"

namespace trainyard {

UnitReductions::UnitReductions(ProgramDraft& draft, const ParallelConfig& parallel)
    : program_(draft.program),
      plan_(draft.plan),
      parallel_(parallel),
      replicas_(replicate_group(draft.program, parallel)) {}

void UnitReductions::put(std::size_t bucket, std::vector<ProgramOp>& out) const {
  const Bucket& of = plan_.buckets[bucket];
  const GroupId summands = reduce_group_of(program_, of, parallel_);
  if (of.gradient_part == kNoIndex) {
    out.push_back(
        collective_op(OpKind::kAllReduce, summands, StreamId::kDp, of.gradient, of.gradient_sum));
    return;
  }
  ValueId reduced = of.gradient;
  if (of.packs()) {
    const GroupId shards = shard_group_of(program_, of, parallel_);
    out.push_back(copy_in_op(shards, of.gradient, of.gradient_packed));
    out.push_back(free_op(of.gradient));
    reduced = of.gradient_packed;
  }
  if (of.gradient_slice != kNoIndex) reduced = of.gradient_slice;
  if (of.gradient_part == reduced) return;  // nobody has another summand of it
  out.push_back(
      collective_op(OpKind::kReduceScatter, summands, StreamId::kDp, reduced, of.gradient_part));
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
    if (bucket.gradient_part != bucket.gradient_slice)
      free.reads.push_back({bucket.gradient_part, 0});
  }
  if (!free.reads.empty()) out.push_back(std::move(free));
}

}  // namespace trainyard
