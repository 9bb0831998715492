// What the kernels of an op take that is split over ranks, forward and backward.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "engine/base/units.h"
#include "engine/cost/cost_model.h"
#include "engine/passes/sharding.h"
#include "engine/passes/training_graph.h"

namespace trainyard {

class SplitTimes {
 public:
  /// `training`: a microbatch on one device, in one stage; all three live as long as this does.
  SplitTimes(const TrainingGraph& training, const HardwareProfile& hardware,
             const SoftwareProfile& software);

  /// The op of `training` that makes a tensor; kNoIndex: none.
  OpId op_named(const std::string& result) const;

  /// Seconds of all instructions of the op on one rank's shapes; collectives and launches take
  /// none. Gradients lie as what they are of.
  Seconds of(const Graph& graph, const Op& op, const SplitOp& split, const Sharding& sharding);

 private:
  SpecId spec_of(const Graph& graph, const Op& op, const SplitOp& split, TensorId tensor) const;

  const TrainingGraph& training_;
  const HardwareProfile& hardware_;
  const SoftwareProfile& software_;
  SourceLog log_;
  std::unordered_map<std::string, OpId> by_result_;
  Indexed<OpId, std::vector<const Instruction*>> instructions_;
};

}  // namespace trainyard
