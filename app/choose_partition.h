// Cuts of stages that a study leaves to costs.
#pragma once

#include <variant>

#include "app/prepare.h"
#include "engine/planner/search_cuts.h"

namespace trainyard {

/// Chooses partition.cuts where the method is cost, parameters, autopipe or search, from the
/// model's ops as one rank of the tensor group runs them (planner/choose_cuts.h, autopipe_cuts.h,
/// search_cuts.h), and says so in the study's origins. Cuts that are given by name are held against
/// the same ops. `evaluate`: the study's step with other cuts. Throws ConfigError at `partition`: a
/// name that nothing has, cuts that do not ascend, fewer layers than stages.
void choose_partition(Prepared& prepared, const EvaluateCuts& evaluate);

/// What method search finds for a study with stages of any cuts, within partition.budget.
std::variant<SearchedCuts, Infeasible> search_partition(const Prepared& prepared,
                                                        const EvaluateCuts& evaluate);

}  // namespace trainyard
