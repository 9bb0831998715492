// What rotor has a plan compute again, and why: for `compile`.
#pragma once

#include <string>
#include <vector>

#include "engine/base/units.h"
#include "engine/memory/memory.h"
#include "engine/passes/chain_groups.h"
#include "engine/recompute/chain.h"
#include "engine/schedule/pipeline_schedule.h"

namespace trainyard {

struct RotorFacts {
  const TrainingGraph& training;
  const ChainGroups& groups;
  const std::vector<SizedChain>& chains;               // [stage]
  const std::vector<std::vector<ChainOp>>& sequences;  // [stage]
  std::vector<std::size_t> searched;                   // [stage] as how many groups; 0: as they are
  const PipelineSchedule& schedule;
  const std::vector<MemoryPeak>& whole;  // [pipeline rank] where all is kept
  const std::vector<MemoryPeak>& peaks;  // [pipeline rank] of the plan
  Bytes budget;
};

/// A line for the budget, and one for each stage.
std::vector<std::string> rotor_text(const RotorFacts& facts);

}  // namespace trainyard
