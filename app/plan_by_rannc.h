// A study's pipeline as RaNNC decides it: partition: rannc.
#pragma once

#include "app/model_profiles.h"
#include "study/planned_pipeline.h"
#include "study/study_reader.h"

namespace trainyard {

/// The pieces of the model in blocks, and those in stages with replicas of their own number, by
/// RaNNC's algorithms (partition/task_blocks.h, pipeline_search.h), whose profiling on a GPU is the
/// cost model. Nodes are the cluster's. Rules paper and exact take of the microbatch counts the
/// one whose step with closed forms is shortest, and what needs more memory by its own Program
/// than a device has without the margin does not fit; rule code takes the library's estimate.
/// Stages send on the links inside a node, as the paper has it (note 3), or at the rate that the
/// code assumes. Throws ConfigError where the model has no plan, PlanError where nothing fits.
PlannedPipeline plan_by_rannc(const PipelineRequest& request, const StudyResolvers& resolvers);
/// The same by profiles that are there already: of the request, or of one with another rule.
PlannedPipeline plan_by_rannc(const PipelineRequest& request, const StudyResolvers& resolvers,
                              ModelProfiles& profiles);

}  // namespace trainyard
