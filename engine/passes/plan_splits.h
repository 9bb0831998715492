// A graph with its sharding: the method's, what the study gives over it, or what a caller chooses.
#pragma once

#include <variant>
#include <vector>

#include "engine/base/error.h"
#include "engine/passes/compile.h"
#include "engine/passes/plan_given.h"
#include "engine/passes/plan_method.h"

namespace trainyard {

/// What a method makes of a graph beneath splits that are given. Those may cut in pieces of unlike
/// size, which Megatron by itself refuses; so does what they leave to Megatron. The meshes of other
/// methods divide what they cut.
std::variant<PlannedGraph, Infeasible> plan_beneath(Graph graph, const MethodPlan& plan);

/// What is given goes over the method's sharding; what nothing could be moved to is its matter.
std::variant<PlannedGraph, Infeasible> plan_by_method(Graph graph, const MethodPlan& plan,
                                                      const std::vector<GivenSharding>& given);

/// By options.plan_sharding, on the mesh of the method.
std::variant<PlannedGraph, Infeasible> plan_by_option(Graph graph, const MethodPlan& plan,
                                                      const CompileOptions& options);

}  // namespace trainyard
