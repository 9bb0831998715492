// Sizes of which a rank's part is no multiple of what products on the devices want.
#pragma once

#include "study/study_reader.h"

namespace trainyard {

/// Behind all defaults.
void warn_of_unaligned_sizes(Study& study, const StudyResolvers& resolvers);

}  // namespace trainyard
