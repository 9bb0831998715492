// study.resolved.yaml: every key of a study with its value and, as a comment, where it came from.
#pragma once

#include <string>

#include "study/study.h"

namespace trainyard {

/// The text reads back (study_reader.h) as the same study, in any folder, and depends on nothing
/// but `study`.
std::string resolved_study_text(const Study& study);

}  // namespace trainyard
