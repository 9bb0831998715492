// Plans whose pipeline ranks have tensor degrees of their own. No key of a study says so; planners
// ask for it here.
#pragma once

#include <variant>
#include <vector>

#include "engine/passes/compile.h"

namespace trainyard {

/// compile() of a plan with `degrees` in place of parallel.tensor: [pipeline rank]. One training
/// graph, sharding and set of segments is made for each that occurs, and each pipeline rank has
/// those of its own (join_degrees.h). Ranks are numbered stage by stage. Infeasible also for what
/// does not go with unlike degrees.
std::variant<Program, Infeasible> compile_unlike_degrees(
    const Graph& model, const ProgramInputs& in, const std::vector<int>& degrees,
    const SoftwareProfile& software, PassLog& log, const CompileOptions& options = {});

}  // namespace trainyard
