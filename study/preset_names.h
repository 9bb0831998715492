// The names that a study may use, of the data under a root.
#pragma once

#include <string>
#include <vector>

#include "study/study_reader.h"

namespace trainyard {

std::vector<std::string> preset_names(const std::string& root, StudyResolvers::Names which);

}  // namespace trainyard
