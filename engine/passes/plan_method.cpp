#include "engine/passes/plan_method.h"

#include <type_traits>
#include <utility>

#include "engine/passes/plan_mesh.h"

namespace trainyard {

MethodPlan method_plan(const ParallelConfig& parallel) {
  if (parallel.tensor_method == "map" && parallel.tensor > 1) return map_plan(parallel);
  const MegatronPlan megatron = megatron_plan(parallel);
  if (megatron.tensor.empty()) return megatron;
  if (const MeshMethod* row = mesh_method(parallel.tensor_method))
    return MeshMethodPlan{row->name, megatron.mesh, megatron.data, megatron.tensor};
  if (parallel.tensor_method == "auto") return AutoPlan{megatron, parallel.split_table};
  if (parallel.tensor_method == "smp")
    return SmpPlan{megatron.mesh, megatron.data, megatron.tensor, parallel.smp,
                   parallel.tensor_modules};
  if (parallel.tensor_method != "atp") return megatron;
  check(!parallel.tensor_mesh.empty(), "the study's reader has chosen a mesh");
  if (parallel.sizes_of_tensor_axes().empty()) return megatron;
  return AtpPlan{megatron.mesh, megatron.data, find_axes(megatron.mesh, "tp0").value_or(Axes{}),
                 find_axes(megatron.mesh, "tp1").value_or(Axes{}), parallel.sequence_parallel};
}

std::variant<PlannedGraph, Infeasible> plan_method(Graph graph, const MethodPlan& plan) {
  if (const auto* atp = std::get_if<AtpPlan>(&plan)) return plan_atp(std::move(graph), *atp);
  if (const auto* table = std::get_if<AutoPlan>(&plan)) return plan_auto(std::move(graph), *table);
  if (const auto* smp = std::get_if<SmpPlan>(&plan)) return plan_smp(std::move(graph), *smp);
  if (const auto* map = std::get_if<MapPlan>(&plan)) return plan_map(std::move(graph), *map);
  if (const auto* mesh = std::get_if<MeshMethodPlan>(&plan))
    return mesh_method(mesh->method)->plan(std::move(graph), *mesh);
  return plan_megatron(std::move(graph), std::get<MegatronPlan>(plan));
}

MethodAxes axes_of(const MethodPlan& plan) {
  return std::visit(
      [](const auto& of) {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(of)>, AutoPlan>)
          return MethodAxes{of.megatron.mesh, of.megatron.data};
        else
          return MethodAxes{of.mesh, of.data};
      },
      plan);
}

}  // namespace trainyard
