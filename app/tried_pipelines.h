// What a search for a pipeline tried, in lines for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/partition/pipeline_search.h"

namespace trainyard {

/// "1 stage", "2 microbatches".
std::string counted(std::int64_t count, const std::string& what);

/// A line for each number of microbatches, and one for those that fail alike.
std::vector<std::string> tried_lines(const std::vector<PipelineTrial>& tried);

}  // namespace trainyard
