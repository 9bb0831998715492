// What happens once per step around the microbatches: gradients are zeroed, reduced bucket by
// bucket, their norm is taken, the optimizer updates the weights. Each is a segment; lower() places
// the calls.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/cost/software_profile.h"
#include "engine/passes/instantiate.h"
#include "engine/plan/plan.h"

namespace trainyard {

/// Segments of one bucket; -1: not needed for it.
struct BucketSegments {
  SegmentId reduce =
      -1;  // over data parallelism: all_reduce, or reduce_scatter or reduce under ZeRO-1
  SegmentId reduce_tensor = -1;  // partial sums of replicated parameters, over tensor parallelism
  SegmentId reduce_tied = -1;    // over the pipeline ranks that share the weights
  /// Segments of the backward that add to it, each with the op before which it has.
  std::vector<std::pair<SegmentId, std::uint32_t>> added_by;
};

struct StepSegments {
  std::vector<SegmentId> zero;          // [stage]; -1: nothing is zeroed at the begin
  std::vector<BucketSegments> buckets;  // [bucket]
  std::vector<SegmentId> loss;          // [pipeline rank]: reduces the reported loss; -1: none
  std::vector<SegmentId> norm;          // [pipeline rank]; -1: no clipping, no overflow check
  std::vector<SegmentId> update;        // [pipeline rank]
  // With post-validation (post_validation.h), [pipeline rank]; else empty.
  std::vector<SegmentId> validate, correct;
  std::vector<SegmentId> pass_norm;                  // -1: the first rank
  std::vector<SegmentId> receive_norm;               // -1: `norm` does
  std::vector<std::vector<SegmentId>> zero_of_rank;  // of gradients; `zero` has the loss alone
};

/// A segment of no microbatch, "3NORM" of stage 3 and name NORM.
SegmentId add_step_segment(Program& program, std::int32_t stage, const std::string& name,
                           Phase phase, std::vector<ProgramOp> ops);

StepSegments add_step_segments(ProgramDraft& draft, const ParallelConfig& parallel,
                               const TrainingConfig& config, const SoftwareProfile& software);

}  // namespace trainyard
