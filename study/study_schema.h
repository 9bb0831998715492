// The JSON schema of a study, which gives completion and checks in editors.
// schemas/study.schema.json is this text; a test keeps it so, and another compares its keys with
// those the reader takes. Null, which the reader takes for the default, is left out of it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "study/study_reader.h"

namespace trainyard {

/// Draft 2020-12, indented, one newline at the end. `names`: of presets, frameworks and devices,
/// which editors offer; may be empty.
std::string study_schema_text(
    const std::function<std::vector<std::string>(StudyResolvers::Names)>& names = {});

}  // namespace trainyard
