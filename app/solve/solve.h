// `trainyard solve`: one algorithm of the engine on a problem that is written by hand.
// docs/contract.md, section 5.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "study/yaml_reader.h"

namespace trainyard {

struct SolveProblem {
  std::string_view name;
  std::string_view other_name;  // a word for it in peers' tables; "": none
  std::string_view description;
  std::string_view keys;     // one line each, for --help
  std::string_view example;  // a problem that runs
  nlohmann::ordered_json (*solve)(const YamlNode& problem);
};
const std::vector<SolveProblem>& solve_problems();

/// The problem that `name` means; nullptr: none.
const SolveProblem* find_problem_kind(const std::string& name);

/// The answer to the problem that the map `document` names. Throws ConfigError for what is wrong in
/// it.
nlohmann::ordered_json solve(const YamlNode& document);

/// What `solve --help NAME` prints; "": the list of problems.
std::string solve_help(const std::string& name);

/// The answer as lines: one per key, and per element of lists of lists.
std::string solve_text(const nlohmann::ordered_json& answer);

// Solvers, of solve_schedule.cpp, solve_lower.cpp, solve_sub_pipelined.cpp, solve_division.cpp,
// solve_reshard.cpp and solve_strategies.cpp.
nlohmann::ordered_json solve_schedule(const YamlNode& problem);
nlohmann::ordered_json solve_lower(const YamlNode& problem);
nlohmann::ordered_json solve_sub_pipelined(const YamlNode& problem);
nlohmann::ordered_json solve_d_hondt(const YamlNode& problem);
nlohmann::ordered_json solve_segment(const YamlNode& problem);
nlohmann::ordered_json solve_batch_split(const YamlNode& problem);
nlohmann::ordered_json solve_stage_recompute(const YamlNode& problem);
nlohmann::ordered_json solve_checkpoint_groups(const YamlNode& problem);
nlohmann::ordered_json solve_reshard(const YamlNode& problem);
nlohmann::ordered_json solve_op_strategies(const YamlNode& problem);
nlohmann::ordered_json solve_propagate(const YamlNode& problem);

}  // namespace trainyard
