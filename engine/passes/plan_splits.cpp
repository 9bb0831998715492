#include "engine/passes/plan_splits.h"

#include <utility>

namespace trainyard {

std::variant<PlannedGraph, Infeasible> plan_by_method(Graph graph, const MethodPlan& plan,
                                                      const std::vector<GivenSharding>& given) {
  auto base = plan.plan(std::move(graph));
  if (given.empty() || std::holds_alternative<Infeasible>(base)) return base;
  return plan_given(std::get<PlannedGraph>(std::move(base)), given);
}

std::variant<PlannedGraph, Infeasible> plan_by_option(Graph graph, const MethodPlan& plan,
                                                      const CompileOptions& options) {
  PlannedGraph planned{std::move(graph), {}};
  planned.sharding.mesh = plan.mesh();
  planned.sharding.late = set_of(plan.data());
  options.plan_sharding(planned.graph, planned.sharding);
  return planned;
}

}  // namespace trainyard
