// How the ranks of method atp lie: whether a plan's mesh suits the model, and which one a plan gets
// that names none.
#pragma once

#include <variant>

#include "engine/cluster/atp_mesh.h"
#include "engine/cluster/cluster.h"
#include "engine/passes/method_mesh.h"
#include "engine/plan/plan.h"

namespace trainyard {

/// parallel.tensor says how many ranks there are, tensor_method how they lie.
MethodProblem arrange_atp(Plan& plan);

/// A mesh has to divide the model, unless a sharding of the plan's own says otherwise, which names
/// axes of a mesh.
MethodProblem check_atp(const Plan& plan);

/// The mesh of the least all-reduce time among those that divide the model, by the cluster's links
/// or by measured bandwidths.
std::variant<ChosenMesh, Infeasible> choose_atp_mesh(const Plan& plan, const Cluster& cluster);

}  // namespace trainyard
