// How the gradients of a step are summed up, bucket by bucket: over tensor axes that have summands
// of them, over the replicas, over the pipeline ranks that share weights.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/passes/program_draft.h"
#include "engine/plan/plan.h"

namespace trainyard {

/// A collective that reads one value and writes another.
ProgramOp collective_op(OpKind kind, GroupId group, StreamId stream, ValueId read, ValueId write);

/// A new value in the storage of `of`: what an in-place collective over `group` leaves there, where
/// `of` has summands along its axes.
ValueId add_in_place(Program& program, ValueId of, const std::string& suffix, GroupId group);

/// Between a bucket as its shards lie one behind the other and its parameters, each with its rows.
ProgramOp copy_out_op(GroupId shards, ValueId packed, ValueId parameter);
ProgramOp copy_in_op(GroupId shards, ValueId gradient, ValueId packed);
ProgramOp free_op(ValueId value);

/// In which a bucket's gradients add up over the microbatches.
ValueId accumulated_gradient(const Bucket& bucket);
/// Where they lie when they have been reduced, until the update.
ValueId reduced_storage(const Bucket& bucket);

/// What is gathered in place of a shard: its cast, or its copy from the host; none: itself. Beside
/// a cast to 8 bits, what it is made by.
struct GatherSource {
  ValueId cast = kNoIndex, loaded = kNoIndex;
  GatheredScales by;
};

/// What gathers a bucket of `plan` that lies in shards into `parameter`, a cast before it where it
/// has one: on the stream of gathers.
std::vector<ProgramOp> gather_ops(const BucketPlan& plan, const Bucket& bucket,
                                  const GatherSource& source, ValueId parameter, GroupId shards);

/// What leaves the rank's piece of a gathered bucket.
ProgramOp reshard_op(ValueId own_piece, ValueId piece);

class StepReductions {
 public:
  StepReductions(ProgramDraft& draft, const ParallelConfig& parallel);

  /// Adds the segments that reduce a bucket; returns its gradient, or its shard of it, behind them.
  ValueId add(std::size_t bucket, BucketSegments& segments);

 private:
  Program& program() { return draft_.program; }
  bool unlike() const { return !parallel_.replicas.empty(); }
  ValueId in_bucket(Bucket& bucket, ValueId of, const std::string& suffix, GroupId group,
                    bool sharded);
  ValueId over_replicas(Bucket& bucket, ValueId gradient, const std::string& suffix,
                        BucketSegments& segments);
  ValueId over_unlike_tied(Bucket& bucket, ValueId gradient, const std::string& suffix,
                           BucketSegments& segments);
  GroupId tied_group(const std::vector<std::int32_t>& members);

  ProgramDraft& draft_;
  const ParallelConfig& parallel_;
  GroupId replicas_;  // replicate_group()
  std::map<std::vector<std::int32_t>, GroupId> tied_;
};

}  // namespace trainyard
