// `partition: search-pipeline`: what is left out of a pipeline, searched by its steps.
#pragma once

#include "app/prepare.h"
#include "study/planned_pipeline.h"

namespace trainyard {

/// The pipeline of the shortest step with closed forms whose ranks fit (planner/search_shapes.h),
/// on all devices. It begins with what RaNNC's three rules answer, and with 1, 2, 3, ... stages of
/// like cost and of as many layers on equal shares of the devices, so none of these is faster.
/// Throws ConfigError and PlanError where nothing fits.
PlannedPipeline plan_by_search(const PipelineRequest& request, const StudyResolvers& resolvers);

}  // namespace trainyard
