// How the ranks of method map lie: what its mesh and its list of ops may name, and the mesh of a
// plan that names none.
#pragma once

#include <variant>

#include "engine/cluster/cluster.h"
#include "engine/passes/method_mesh.h"
#include "engine/plan/plan.h"

namespace trainyard {

/// The mesh has as many ranks as parallel.tensor says. Axes of one rank, which split nothing, go.
MethodProblem arrange_map(Plan& plan);

/// The batch is split over the replicas' axes whatever the list says; a result may say so, too,
/// where there are several.
MethodProblem check_map(const Plan& plan);

/// The levels of the links of the tensor group.
std::variant<ChosenMesh, Infeasible> choose_map_mesh(const Plan& plan, const Cluster& cluster);

}  // namespace trainyard
