// What the host does beside issuing ops: it reads microbatches, and goes through parameter tensors
// around the update.
#pragma once

#include <cstdint>

#include "engine/base/indexed.h"
#include "engine/cost/host_times.h"
#include "engine/program/program.h"

namespace trainyard {

/// SoftwareProfile::batch_us and tensor_update_us on the ops of a Program, which outlives it.
class HostWork {
 public:
  HostWork(const Program& program, const SoftwareProfile& software, SourceLog& log)
      : program_(program),
        software_(software),
        log_(log) {}

  /// Begins a segment of a pipeline rank.
  void enter(const Segment& segment, std::int32_t pipeline_rank);

  /// Seconds before the host issues `op`, the segment's next with a kernel: a batch before the
  /// first op that loads of it, all tensors before the first update, as each is waited for.
  Seconds before(const ProgramOp& op);

 private:
  std::int64_t tensors_of(const ProgramOp& update, std::int32_t pipeline_rank);

  const Program& program_;
  const SoftwareProfile& software_;
  SourceLog& log_;
  Indexed<ValueId, std::int32_t> parameters_in_;  // how many lie in it; filled once asked
  bool batch_ = false;                            // is to be read
  std::int64_t tensors_ = 0;                      // are to be gone through
};

}  // namespace trainyard
