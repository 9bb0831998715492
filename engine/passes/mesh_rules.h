// What planners of mesh methods share: weights that are stored in more pieces than a product uses,
// and ops that work on features as these lie.
#pragma once

#include <utility>
#include <vector>

#include "engine/passes/mesh_forms.h"
#include "engine/passes/op_planner.h"

namespace trainyard {

/// The weight of a linear, or a table.
bool is_weight(const Op& op, std::size_t input);

/// Whether so many ranks divide the outputs of a linear, each of its weight's parts by itself.
bool divides_outputs(const PlannedOps& planned, const Op& linear, std::int64_t ranks);

/// Those of `axes` that cut an activation elsewhere than in its batch.
AxisSet feature_axes(const PlannedOps& planned, TensorId id, AxisSet axes);

/// Heads, or elements or rows each by itself, as the features of the first operand lie that has
/// some split over `axes`.
std::vector<IndexSplit> as_features_lie(const PlannedOps& planned, const Op& op,
                                        const IndexSpace& space, AxisSet axes);

/// With the axes behind those that cut the dim, where they divide it; else as it is.
TensorSpec cut_further(const PlannedOps& planned, TensorId weight, TensorSpec used, std::size_t dim,
                       const Axes& axes);

template <typename Rules>
std::variant<PlannedGraph, Infeasible> plan_by_mesh_rules(Graph graph, const MeshMethodPlan& plan,
                                                          const Rules& rules) {
  Sharding sharding;
  sharding.mesh = plan.mesh;
  sharding.late = set_of(plan.data);
  SplitRules walk;
  walk.data = plan.data;
  walk.tensor = plan.tensor;
  walk.norms_by_moments = walk.several_dims = true;
  walk.mark = [](TensorId) { return 0; };
  walk.splits = [&](const PlannedOps& planned, const Op& op, const IndexSpace& space) {
    return rules.splits(planned, op, space);
  };
  walk.stored = [&](const PlannedOps&, const Op& op, std::size_t, MadeSpec made) {
    return rules.stored(op, std::move(made));
  };
  walk.batch = [&](const PlannedOps& planned, const Op& op) { return rules.batch(planned, op); };
  walk.stored_parameter = [&](const PlannedOps& planned, const Op& op, std::size_t input,
                              TensorSpec used) {
    return rules.stored_parameter(planned, op, input, std::move(used));
  };
  return plan_ops(std::move(graph), std::move(sharding), walk);
}

}  // namespace trainyard
