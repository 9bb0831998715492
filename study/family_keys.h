// Keys of `model:` that a family has no use for.
#pragma once

#include "study/study_section.h"

namespace trainyard {

/// Refuses those of `node`, the model's map, that mean nothing to models like it, and warns of
/// those that matter only to others of its kind.
void check_family_keys(StudyDraft& draft, const YamlNode& node);

}  // namespace trainyard
