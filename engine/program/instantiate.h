// Pass: the instructions of one microbatch -> the Program's values and its compute segments ("3F",
// "3B"), the one-op segments that move values between stages, and the points where storage is freed.
#pragma once

#include <vector>

#include "engine/config/study.h"
#include "engine/graph/differentiate.h"
#include "engine/program/parameter_buckets.h"
#include "engine/program/program.h"

namespace trainyard {

/// Segments of one stage; -1: it has none.
struct StageSegments {
  SegmentId forward = -1, backward = -1;
  SegmentId send_forward = -1, receive_forward = -1, free_forward = -1;     // activations: out, in, sent
  SegmentId send_backward = -1, receive_backward = -1, free_backward = -1;  // gradients
};

/// A Program in the making, with what the passes after this one need to know about it.
struct ProgramDraft {
  Program program;
  BucketPlan plan;
  std::vector<StageSegments> stages;
  ValueId loss = -1;
  int num_ranks = 1;  // along pp
};

/// Ids of the groups and transfers that instantiate() creates first, in this order.
inline constexpr GroupId kTensorGroup = 0;
inline constexpr GroupId kDataGroup = 1;
inline constexpr TransferId kToNext = 0;
inline constexpr TransferId kToPrevious = 1;

ProgramDraft instantiate(const TrainingGraph& training, const ParallelConfig& parallel,
                         const TrainingConfig& config, DType grad_dtype);

}  // namespace trainyard
