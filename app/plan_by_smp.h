// partition: smp, SageMaker's modules on the devices of a pipeline.
#pragma once

#include "study/study_reader.h"

namespace trainyard {

/// Traces the model of the request on one device by the cost model, and divides its modules
/// (tree_partition.h), or takes the devices that the study assigns; then walks them. Throws
/// ConfigError at the key to blame.
PlannedModules plan_by_smp(const ModulesRequest& request, const StudyResolvers& resolvers);

}  // namespace trainyard
