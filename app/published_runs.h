// The published runs that ship, with how far off their predictions are.
#pragma once

#include <string>
#include <vector>

#include "report/resemblance.h"

namespace trainyard {

/// Those of every list in calibrate/published/ of the folder `root`, in the order of their names.
std::vector<ScoredCase> published_runs(const std::string& root);

}  // namespace trainyard
