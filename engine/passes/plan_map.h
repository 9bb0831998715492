// Planner: a list that says how each op uses the tensor axes, as a sharding. What chooses the list
// is MAP (Liu et al. 2023, arXiv:2302.02599; planner/map_problem.h); this carries it out.
//
//   an op      is named by the first tensor that it makes, or a pattern with * is; of several
//              entries the most literal wins. Axes that it leaves out are not used: ranks do the
//              same
//   a result   is stored as it is made, its summands added up at once, unless the entry has a spec
//              for "result"; the loss stays summands, which the step adds up
//   an input   of the model is loaded whole by all ranks of the tensor axes
//   expanded   (op_planner.h) are cross entropy and a norm over split features, which lie as what
//              they read does
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "engine/passes/given_sharding.h"
#include "engine/passes/sharding.h"
#include "engine/plan/plan.h"

namespace trainyard {

struct MapPlan {
  DeviceMesh mesh;  // late axes have kLateRanks
  Axes data;        // late
  Axes tensor;
  std::vector<GivenSharding> ops;
  friend bool operator==(const MapPlan&, const MapPlan&) = default;
};
MapPlan map_plan(const ParallelConfig& parallel);

inline constexpr const char* kResultSpec = "result";
inline constexpr const char* kMapOpsKey = "parallel.tensor_method.ops";

/// The name by which lists know an op; empty: it makes nothing.
std::string name_of_op(const Graph& graph, const Op& op);

/// What is wrong with the list: patterns that match nothing, indices that an op lacks, specs of
/// other dims. `model`: the graph with its kernels selected.
std::vector<GivenMistake> find_map_mistakes(const Graph& model, const MapPlan& plan);

/// The list that says what a sharding of the plan's mesh does, layers that are alike by one
/// pattern.
std::vector<GivenSharding> listed_ops(const PlannedGraph& planned, AxisSet tensor);

/// The same model with every op whole along the tensor axes.
std::variant<PlannedGraph, Infeasible> plan_whole(Graph graph, const MapPlan& plan);

/// Infeasible, at the list's entry, where a dimension does not divide.
std::variant<PlannedGraph, Infeasible> plan_map(Graph graph, const MapPlan& plan);

}  // namespace trainyard
