// Which planner splits a plan's layers (parallel.tensor_method), and what it is told.
#pragma once

#include <variant>

#include "engine/passes/mesh_methods.h"
#include "engine/passes/plan_atp.h"
#include "engine/passes/plan_auto.h"
#include "engine/passes/plan_map.h"
#include "engine/passes/plan_megatron.h"
#include "engine/passes/plan_smp.h"

namespace trainyard {

using MethodPlan = std::variant<MegatronPlan, AtpPlan, AutoPlan, SmpPlan, MapPlan, MeshMethodPlan>;

/// A mesh that atp leaves without a second axis is Megatron's. Its mesh has been chosen. A tensor
/// group of one rank is Megatron's, whatever the method.
MethodPlan method_plan(const ParallelConfig& parallel);

/// Infeasible where a dimension does not divide.
std::variant<PlannedGraph, Infeasible> plan_method(Graph graph, const MethodPlan& plan);

/// What all methods have.
struct MethodAxes {
  DeviceMesh mesh;
  Axes data;
};
MethodAxes axes_of(const MethodPlan& plan);

}  // namespace trainyard
