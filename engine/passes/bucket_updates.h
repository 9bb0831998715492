// What changes the weights of a rank's buckets at the end of a step: on the device, or by the host
// that has their state.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/cost/software_profile.h"
#include "engine/passes/program_draft.h"
#include "engine/plan/plan.h"

namespace trainyard {

/// A copy between a device and its host.
ProgramOp host_copy(StreamId stream, ValueId from, ValueId to);

class BucketUpdates {
 public:
  /// Appends to `ops`. `norm`: of all gradients; none: nothing looks at it.
  BucketUpdates(Program& program, const TrainingConfig& config, const SoftwareProfile& software,
                ValueId norm, std::vector<ProgramOp>& ops);

  /// Copies the norm to the host: it clips by it, and looks at whether it is finite.
  void tell_host(std::int32_t rank);

  /// `gradient`: of the bucket, behind all reductions; where its state is on the host that has a
  /// copy of it. The host updates a bucket while the weights of the one before are copied back,
  /// from a slot that is free once that has ended: so it has two.
  void add(const Bucket& bucket, ValueId gradient);

  /// Adds to `free` what lies on the host behind the last update.
  void add_left(ProgramOp& free) const;

 private:
  ProgramOp optimizer_op(ValueId norm) const;
  ProgramOp average_op(const Bucket& bucket);
  void update_on_host(const Bucket& bucket);

  Program& program_;
  const TrainingConfig& config_;
  const SoftwareProfile& software_;
  ValueId norm_, host_norm_ = kNoIndex;
  ValueId copied_back_ = kNoIndex;  // the last weights whose slot is not free again
  std::vector<ProgramOp>& ops_;
};

}  // namespace trainyard
