// What the ops of a stage's forward hold on a rank: parameters, and what the backward reads again.
#pragma once

#include <set>

#include "engine/program/program.h"
#include "report/stage_segments.h"

namespace trainyard {

class StageBytes {
 public:
  /// `program` must outlive it.
  StageBytes(const Program& program, const StageSegments& segments, std::int32_t stage);

  /// Parameters that no op before read. Called in the order of the forward's ops, as activations().
  Bytes parameters(const ProgramOp& op);
  /// Storage of activations that no op before wrote, and that an op of the backward reads.
  Bytes activations(const ProgramOp& op);

 private:
  const Program& program_;
  std::set<ValueId> read_back_;  // storage
  std::set<ValueId> counted_;
};

}  // namespace trainyard
