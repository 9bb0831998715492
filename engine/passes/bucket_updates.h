// What changes the weights of a rank's buckets at the end of a step: on the device, or by the host
// that has their state.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "engine/cost/software_profile.h"
#include "engine/passes/program_draft.h"
#include "engine/plan/plan.h"

namespace trainyard {

/// A copy between a device and its host, or the host and its drives.
ProgramOp host_copy(StreamId stream, ValueId from, ValueId to);

class BucketUpdates {
 public:
  /// Appends to `ops`. `norm`: of all gradients; none: nothing looks at it.
  BucketUpdates(Program& program, const TrainingConfig& config, const SoftwareProfile& software,
                ValueId norm, std::vector<ProgramOp>& ops);

  /// Copies the norm to the host: it clips by it, and looks at whether it is finite.
  void tell_host(std::int32_t rank);

  /// `gradient`: of the bucket, behind all reductions; where its state is on the host that has a
  /// copy of it. A bucket is updated while the weights of the one before are copied to where they
  /// lie, from what is free once that has ended: so there are two. Of state on NVMe there are
  /// three: one that is read, one that is updated, one that is written back.
  void add(const Bucket& bucket, ValueId gradient);

  /// Adds to `free` what lies on the host behind the last update.
  void add_left(ProgramOp& free) const;

 private:
  ProgramOp optimizer_op(ValueId norm) const;
  ProgramOp average_op(const Bucket& bucket);
  ProgramOp update_op(const Bucket& bucket, ValueId gradient);
  void add_state(const Bucket& bucket, ProgramOp& op);
  void read_state(const Bucket& bucket);
  void write_state(const Bucket& bucket);
  void copy_weights(const Bucket& bucket);
  /// Frees what was given to it `behind` calls ago.
  void free_later(std::deque<std::vector<ValueId>>& left, std::vector<ValueId> values,
                  std::size_t behind);

  Program& program_;
  const TrainingConfig& config_;
  const SoftwareProfile& software_;
  ValueId norm_, host_norm_ = kNoIndex;
  // Not free again: new weights, and state that was read.
  std::deque<std::vector<ValueId>> copied_, written_;
  std::vector<ProgramOp>& ops_;
};

}  // namespace trainyard
