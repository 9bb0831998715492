// `trainyard validate --run` without its printing.
#pragma once

#include <string>
#include <vector>

#include "calibrate/validate/run_comparison.h"

namespace trainyard {

/// Simulates the Program in `folder`, where `train` wrote a run, under the study of that run with
/// `sets` and `fidelity` ("": the study's), and compares the two. Throws ConfigError where the
/// folder holds no run with measured.json, and where an option would make another Program.
RunComparison validate_run(const std::string& folder, const std::vector<std::string>& sets,
                           const std::string& fidelity);

}  // namespace trainyard
