// The problems of `solve` that divide models among devices.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "app/solve/solve.h"

namespace trainyard {

const std::vector<SolveProblem>& partition_problems();

// Solvers, of solve_smp.cpp, solve_rannc.cpp, solve_shards.cpp and solve_placement.cpp.
nlohmann::ordered_json solve_smp_partition(const YamlNode& problem);
nlohmann::ordered_json solve_rannc_stages(const YamlNode& problem);
nlohmann::ordered_json solve_rannc_blocks(const YamlNode& problem);
nlohmann::ordered_json solve_rannc(const YamlNode& problem);
nlohmann::ordered_json solve_graph_shard(const YamlNode& problem);
nlohmann::ordered_json solve_autopipe(const YamlNode& problem);
nlohmann::ordered_json solve_placement(const YamlNode& problem);

}  // namespace trainyard
