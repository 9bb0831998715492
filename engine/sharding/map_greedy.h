// MAP's redistribution (Colossal-AI, colossalai/tensor/shape_consistency.py): one-step moves, and
// the path that takes at each step the one which looks nearest to the target.
#pragma once

#include "engine/sharding/redistribution.h"

namespace trainyard {

/// Moves of one step from a spec whose dims are R, S0, S1 or S01, in Colossal-AI's order:
/// all-gathers of the last axis of a dim; all-to-alls between two dims, of which both have one axis
/// at most; splits along an axis that splits nothing. Lists ascend.
std::vector<RedistributionStep> colossal_steps(const TensorSpec& spec, const DeviceMesh& mesh);

/// How far two lists of a dim look apart: 20 per axis that is gathered, 5 per axis that is split,
/// and 6 for each step but the first.
int dim_difference(const Axes& from, const Axes& to);

/// The step with the least sum of dim_difference() to the target, the first of equal ones, until it
/// is reached. Meshes of two axes, specs of S and R, lists in ascending order; else Infeasible.
std::variant<Redistribution, Infeasible> greedy_redistribution(const TensorSpec& from,
                                                               const TensorSpec& to,
                                                               const DeviceMesh& mesh);

}  // namespace trainyard
