// The JSON schema of a study, which gives completion and checks in editors.
// schemas/study.schema.json is this text; a test keeps it so, and another compares its keys with
// those the reader takes. Null, which the reader takes for the default, is left out of it.
#pragma once

#include <string>

namespace trainyard {

std::string study_schema_text();  // draft 2020-12, indented, one newline at the end

}  // namespace trainyard
