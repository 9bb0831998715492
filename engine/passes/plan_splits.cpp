#include "engine/passes/plan_splits.h"

#include <utility>

#include "engine/passes/plan_megatron.h"

namespace trainyard {

std::variant<PlannedGraph, Infeasible> plan_beneath(Graph graph, const MethodPlan& plan) {
  const auto* megatron = plan.told<MegatronPlan>();
  if (megatron == nullptr) return plan.plan(std::move(graph));
  MegatronPlan uneven = *megatron;
  uneven.uneven = true;
  return plan_megatron(std::move(graph), uneven);
}

std::variant<PlannedGraph, Infeasible> plan_by_method(Graph graph, const MethodPlan& plan,
                                                      const std::vector<GivenSharding>& given) {
  if (given.empty()) return plan.plan(std::move(graph));
  auto base = plan_beneath(std::move(graph), plan);
  if (std::holds_alternative<Infeasible>(base)) return base;
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
