// What a plan with replicas of each pipeline rank asks of its microbatches and of what stages send.
#pragma once

#include <optional>
#include <vector>

#include "engine/base/error.h"
#include "engine/passes/training_graph.h"
#include "engine/plan/plan.h"

namespace trainyard {

/// Why a microbatch cannot be split among the replicas of every pipeline rank; nullopt: it can.
std::optional<Infeasible> replica_obstacle(const Plan& plan);

/// The same of what stages send: its sequences are its first dim, cut by no other axis, or all
/// replicas have all of it.
std::optional<Infeasible> transfer_obstacle(const Plan& plan,
                                            const std::vector<TrainingGraph>& trainings);

}  // namespace trainyard
