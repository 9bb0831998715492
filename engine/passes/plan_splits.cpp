#include "engine/passes/plan_splits.h"

#include <utility>

namespace trainyard {

std::variant<PlannedGraph, Infeasible> plan_by_method(Graph graph, const MethodPlan& plan,
                                                      const std::vector<GivenSharding>& given) {
  auto base = plan_method(std::move(graph), plan);
  if (given.empty() || std::holds_alternative<Infeasible>(base)) return base;
  return plan_given(std::get<PlannedGraph>(std::move(base)), given);
}

std::variant<PlannedGraph, Infeasible> plan_by_option(Graph graph, const MethodPlan& plan,
                                                      const CompileOptions& options) {
  PlannedGraph planned{std::move(graph), {}};
  const MethodAxes axes = axes_of(plan);
  planned.sharding.mesh = axes.mesh;
  planned.sharding.late = set_of(axes.data);
  options.plan_sharding(planned.graph, planned.sharding);
  return planned;
}

}  // namespace trainyard
