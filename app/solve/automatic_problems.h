// The problems of `solve` that choose a mesh, shardings and what is recomputed, as MAP does.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "app/solve/solve.h"

namespace trainyard {

const std::vector<SolveProblem>& automatic_problems();

// Solvers, of solve_recompute.cpp, solve_mesh.cpp, solve_linearise.cpp, solve_strategy.cpp,
// solve_memory.cpp and solve_joint.cpp.
nlohmann::ordered_json solve_device_mesh(const YamlNode& problem);
nlohmann::ordered_json solve_linearise(const YamlNode& problem);
nlohmann::ordered_json solve_memory_profile(const YamlNode& problem);
nlohmann::ordered_json solve_plan_joint(const YamlNode& problem);
nlohmann::ordered_json solve_recompute_chain(const YamlNode& problem);
nlohmann::ordered_json solve_strategy(const YamlNode& problem);

}  // namespace trainyard
