// study.resolved.yaml: every key of a study with its value and, as a comment, where it came from.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "study/study.h"

namespace trainyard {

/// The text reads back (study_reader.h) as the same study, in any folder, and depends on nothing
/// but `study`.
std::string resolved_study_text(const Study& study);

/// Its lines: key paths, and their values as YAML.
using ResolvedValues = std::vector<std::pair<std::string, std::string>>;
ResolvedValues resolved_values(const Study& study);

}  // namespace trainyard
