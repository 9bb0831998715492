// MAP's integer program for a graph: per op the ways to split it over the tensor axes, what each
// takes in time and memory, and what handing a tensor on takes (Liu et al. 2023, arXiv:2302.02599,
// section 5.1, equation 1).
//
//   a node   an op; its options are a use of each axis, an index or none, and how summands are
//            stored: added up, or scattered over the sequence or the rows of the batch
//   cost     kernels on a rank's shapes, forward and backward; what adds summands up; per step, and
//            so over the number of microbatches, the reduction of parameters' gradients and updates
//   memory   what the op's results take until the backward; parameters, with all that is theirs
//   an edge  the moves from how a tensor is stored to how it is wanted (redistribution.h), both
//            ways; ops that share a parameter use it alike. What a move makes that a backward
//            reads takes memory, which edges have at a price alone
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/cost/hardware_profile.h"
#include "engine/cost/software_profile.h"
#include "engine/passes/sharding.h"
#include "engine/passes/training_graph.h"
#include "engine/sharding/move_cost.h"
#include "engine/strategies/strategy_problem.h"

namespace trainyard {

struct MapCosts {
  Numbered<AxisLink> links;   // of the axes of the graph's mesh: seconds, seconds per byte
  double microbatches = 1;    // of a step, on a rank
  double gradient_bytes = 4;  // of an element
  double update = 0;          // seconds of a step per element of a rank's parameters
  double state_bytes = 0;     // of an element, with gradient and optimizer state
  double kept_factor = 1;     // bytes on a device for each that a microbatch keeps
  bool fp8 = false;           // layers are cast, which some splits are too fine for
};

/// One way to split an op.
struct SplitOption {
  SplitOp split;
  std::vector<SpecId> stored;       // [result]
  double compute = 0, moved = 0;    // seconds of a microbatch: kernels; links
  double kept = 0, parameters = 0;  // bytes of a microbatch; elements of a rank
};

class MapProblem {
 public:
  /// Beyond what any step takes: of what no executor has, or an op cannot read so.
  static constexpr double kImpossible = 1e6;
  /// Whether executors have all moves of a choice: the program may have none of which they do.
  bool can_run(const Choice& choice) const;

  /// `whole`: the graph with its kernels selected, split over the late axes alone (plan_whole());
  /// `training`: the same on one device, in one stage. All of `tensor` are axes of whole's mesh.
  MapProblem(const PlannedGraph& whole, const TrainingGraph& training, const Axes& tensor,
             const HardwareProfile& hardware, const SoftwareProfile& software,
             const MapCosts& costs);

  /// The op is to use axes so, among others; an op that no option uses so stays free.
  void require(OpId op, const Strategy& strategy);

  /// A node for each op, in their order.
  const StrategyProblem& problem() const { return problem_; }
  /// The same, with so many seconds for each byte on a device that moves make and backwards read.
  StrategyProblem with_priced_moves(double price) const;
  const SplitOption& option(std::size_t op, std::size_t strategy) const;
  std::string uses_text(std::size_t op, std::size_t strategy) const;  // "b: tp0, o: tp1"

  /// The same graph, split so.
  PlannedGraph planned(const Choice& choice) const;

  /// The choice that a sharding is; nullopt: some op is split as no option has it.
  std::optional<Choice> choice_of(const PlannedGraph& planned) const;

 private:
  class Builder;
  const PlannedGraph& whole_;
  Axes tensor_;
  Sharding sharding_;                                               // with the specs of all options
  std::vector<std::shared_ptr<std::vector<SplitOption>>> options_;  // [op]; layers share them
  StrategyProblem problem_;
  std::vector<std::vector<double>> kept_;  // [edge] bytes on a device, as its costs lie
};

}  // namespace trainyard
