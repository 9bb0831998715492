// What makes a model impossible to build, as one line.
#pragma once

#include <string>

#include "models/model.h"

namespace trainyard {

/// "key: problem"; "none" where there is none.
inline std::string problem_text(const ModelConfig& config) {
  const auto problem = find_problem(config);
  return problem ? problem->key + ": " + problem->problem : "none";
}

}  // namespace trainyard
