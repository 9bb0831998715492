// A Program in the making: what the passes from instantiate() to lower() work on.
#pragma once

#include <array>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/passes/parameter_buckets.h"
#include "engine/passes/plan_mesh.h"
#include "engine/passes/replica_classes.h"
#include "engine/passes/transfer_routes.h"
#include "engine/program/program.h"
#include "engine/schedule/stage_form.h"

namespace trainyard {

/// Segments of one way that a transfer may go, or none.
struct WaySegments {
  SegmentId put = kNoIndex;  // of the sender, right behind what makes it: into its buffer
  SegmentId send = kNoIndex;
  SegmentId free = kNoIndex;  // of the sender, later: what has been sent
  SegmentId receive = kNoIndex;
  SegmentId take = kNoIndex;     // of the receiver, right before what reads it: out of its buffer
  SegmentId release = kNoIndex;  // of the receiver, behind that: what came by its host
};

/// What one stage sends another of a microbatch. With buffers for transfers (buffer_transfers.h)
/// one tensor, and lower() decides which way it goes; else all that it sends, which goes direct.
struct StageTransfer {
  WaySegments direct, by_host;
  std::int32_t to = -1;  // the receiving stage
};

/// Segments of one stage, or none.
struct StageSegments {
  SegmentId forward = kNoIndex;
  SegmentId recompute = kNoIndex;
  // [0] recomputes inside ("3B.r" beside an R), [1] is what runs behind an R.
  std::array<SegmentId, 2> backward = {};
  std::array<SegmentId, 2> input = {};
  SegmentId weight = kNoIndex;
  std::vector<StageTransfer> sends_forward;   // of activations, to later stages
  std::vector<StageTransfer> sends_backward;  // of gradients, to earlier ones
};

/// Where a stage touches a storage for a microbatch, in the order in which it does.
using TouchSet = std::uint16_t;
enum Touch : TouchSet {
  kReceiveF = 1,
  kForward = 2,
  kSendF = 4,
  kRecompute = 8,
  kReceiveB = 16,
  kBackward = 32,
  kSendB = 64,
  kWeight = 128,
  kLoad = 256
};

/// By stage, the last first.
using StageTouches = boost::container::small_vector<std::pair<std::int32_t, TouchSet>, 2>;

/// Storages that several stages of one rank touch: the turning stage and the one before it, or
/// those of modules that call others in between. Which has done with them last, only the order of
/// calls says.
struct HandedOver {
  SegmentId free = kNoIndex;
  std::size_t size = 0;  // of microbatch: DraftClass::local
  StageTouches by_stage;
};

/// Segments of one bucket; none: not needed for it.
struct BucketSegments {
  SegmentId reduce =
      kNoIndex;  // over data parallelism: all_reduce, or reduce_scatter or reduce under ZeRO-1
  SegmentId reduce_tensor =
      kNoIndex;  // partial sums of replicated parameters, over tensor parallelism
  SegmentId reduce_tied = kNoIndex;  // over the pipeline ranks that share the weights
  SegmentId copy_out = kNoIndex;     // to the host, which updates by it
  /// Segments of the backward that add to accumulated_gradient(), each with the op before which it
  /// has.
  std::vector<std::pair<SegmentId, std::uint32_t>> added_by;
};

struct StepSegments {
  Numbered<SegmentId> zero;    // [stage]; none: nothing is zeroed at the begin
  Numbered<SegmentId> gather;  // [pipeline rank]: what stays gathered for the step; or none
  std::vector<BucketSegments> buckets;  // [bucket]
  Numbered<SegmentId> loss;             // [pipeline rank]: reduces the reported loss; or none
  Numbered<SegmentId> norm;             // [pipeline rank]; none: no clipping, no overflow check
  Numbered<SegmentId> update;           // [pipeline rank]
  // With post-validation (post_validation.h), [class]; else empty.
  Numbered<SegmentId> norm_of_class;  // in place of `norm`
  Numbered<SegmentId> validate, correct;
  Numbered<SegmentId> pass_norm;     // none: it tells nobody
  Numbered<SegmentId> receive_norm;  // none: the norm's segment does
  // [pipeline rank]: of gradients; `zero` has the loss alone.
  Numbered<std::vector<SegmentId>> zero_of_rank;
};

/// Ranks that run one list: a rank class of the Program to be.
struct DraftClass {
  std::int32_t rank = 0;               // along pp
  std::vector<std::int32_t> replicas;  // RankSet::replicas
  std::vector<std::size_t> variants;   // [size of microbatch]: index into ProgramDraft::stages
  std::vector<std::size_t> local;      // the same: which of the sizes instantiate() was given
  NumberTurns norm = {};               // of unlike replicas with post-validation
};

/// A Program in the making, with what the passes after this one need to know about it.
struct ProgramDraft {
  Program program;
  BucketPlan plan;
  StepSegments step;          // of step_segments.h; empty before
  Numbered<StageForm> forms;  // [stage]
  int num_stages = 0;
  Indexed<std::int32_t, DraftClass> classes;    // ascending pipeline rank
  std::vector<Numbered<StageSegments>> stages;  // [variant][stage]
  Numbered<std::size_t> size_of;  // [microbatch]: which of the sizes it has; empty: there is one
  /// Those of a stage that ranks of a class run, or communicate with.
  const StageSegments& segments(std::int32_t of_class, std::int32_t stage, Microbatch mb) const {
    return stages[classes[of_class].variants[size_of.empty() ? 0 : size_of[mb]]][stage];
  }
  std::vector<HandedOver> handed_over;
  PipelineLinks links;  // empty: no buffers for transfers
  std::map<std::pair<SegmentId, SegmentId>, SegmentId>
      pairs;  // F, B -> both in one (pair_segments.h)
  // gather_units.h: segment, that of the next call, whether of one microbatch -> the former with
  // what gathers for the latter; and segment -> what gathers for it where it begins a step.
  std::map<std::tuple<SegmentId, SegmentId, bool>, SegmentId> gathers_ahead;
  std::map<SegmentId, SegmentId> gathers_first;
  std::map<SegmentId, SegmentId>
      loads_ahead;                      // segment -> what is copied back from the host before it
  std::map<TensorId, ValueId> of_step;  // what is made or kept once per step, beside parameters
  Numbered<std::vector<ProgramOp>> before_step, behind_step;  // [stage]: fp8_products.h
  ValueId loss = kNoIndex;
  int num_ranks = 1;        // along pp
  bool host_waits = false;  // for transfers (host_waits.h)
};

/// Why the values and segments of `draft` are malformed, as program_form.h says; empty when they
/// are not.
std::string find_draft_violation(const ProgramDraft& draft);

}  // namespace trainyard
