// What `solve` says of a problem: its answer, or what is wrong with it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "app/solve/solve.h"
#include "engine/base/error.h"

namespace trainyard {

inline nlohmann::ordered_json answer(const std::string& problem) {
  return solve(YamlNode::parse(problem, "p.yaml"));
}

/// "none" where it has an answer.
inline std::string problem_of(const std::string& problem) {
  try {
    answer(problem);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "none";
}

}  // namespace trainyard
