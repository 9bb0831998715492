// Specs of a graph in the Program that is made of it, and the groups of the moves between them.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "engine/passes/training_graph.h"
#include "engine/program/program.h"

namespace trainyard {

class CarriedSpecs {
 public:
  /// Both outlive it; the Program has its mesh and its first groups (plan_mesh.h).
  CarriedSpecs(const Graph& graph, Program& program) : graph_(graph), program_(program) {}

  /// kNoIndex: a graph that is not sharded has none.
  SpecId spec(SpecId of_graph);

  /// The group of a collective: the axes that its two specs say it is along. Between stages tensors
  /// are viewed as one dim, and cut over all tensor axes.
  GroupId group(const Instruction& move);

 private:
  const Graph& graph_;
  Program& program_;
  Indexed<SpecId, std::optional<SpecId>> specs_;         // [of the graph]: the Program's
  std::map<std::pair<SpecId, SpecId>, GroupId> groups_;  // of moves, by their two specs
};

}  // namespace trainyard
