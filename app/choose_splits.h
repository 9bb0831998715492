// How each op is split where a study leaves that to cost (parallel.tensor_method: map).
#pragma once

#include "app/prepare.h"

namespace trainyard {

/// Chooses parallel.tensor_ops, and says so in the study's origins and lines of its plan. MAP's
/// integer program (planner/map_problem.h) is solved for the memory of a device, or the budget that
/// the study says; its answers and the shardings of other methods (peer_shardings.h) are compiled
/// and simulated, links shared (fidelity fluid, whatever the study's); the fastest whose peak keeps
/// the budget is the plan, so none of those is faster. Where the study says `ops`, they are held
/// against the model. Throws ConfigError at a mistake of these, PlanError where nothing keeps the
/// budget, with the smallest that was found to work.
void choose_splits(Prepared& prepared);

}  // namespace trainyard
