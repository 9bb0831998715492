// `trainyard validate` without its printing.
#pragma once

#include <string>
#include <vector>

#include "app/predict_case.h"
#include "calibrate/validate/validation.h"

namespace trainyard {

/// Reads the cases of `path`, takes those that meet `selections` (select_cases()) and predicts them
/// in `jobs` processes (0: one per core). The answer does not depend on `jobs`. Throws ConfigError
/// where the file is no list of cases, or no case could take one of the options. `sensitivity`:
/// with what the fitted numbers of the software profiles rest on.
Validation validate_cases(const std::string& path, const PredictOptions& options, int jobs,
                          const std::vector<std::string>& selections = {},
                          bool sensitivity = false);

}  // namespace trainyard
