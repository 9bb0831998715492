// The problems of `solve` that choose how layers are split.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "app/solve/solve.h"

namespace trainyard {

const std::vector<SolveProblem>& tensor_problems();

// Solvers, of solve_atp.cpp and solve_tensor_plan.cpp.
nlohmann::ordered_json solve_hierarchical_matrix(const YamlNode& problem);
nlohmann::ordered_json solve_atp_mesh(const YamlNode& problem);
nlohmann::ordered_json solve_tensor_plan(const YamlNode& problem);

}  // namespace trainyard
