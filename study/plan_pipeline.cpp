// Staged resolution of a study whose partition is rannc or search-pipeline: the model with one
// stage is checked, a planner decides from it what the study leaves out, and the study goes on as
// if it said that.
#include <algorithm>
#include <string>
#include <utility>

#include "engine/schedule/schedule_names.h"
#include "study/study_origin.h"
#include "study/study_parts.h"

namespace trainyard {

namespace {

bool says(const Study& study, const std::string& key) {
  return is_said(study, key) || is_said(study, key + ".method");
}

/// What cannot be beside a planned pipeline.
void refuse_beside_plan(const Study& study) {
  const ParallelConfig& parallel = study.parallel;
  const std::string by = "partition " + study.partition.method;
  const auto refuse = [&](bool wrong, const std::string& key, const std::string& problem) {
    if (wrong) fail_at(study, key, problem);
  };
  refuse(parallel.tensor > 1, "parallel.tensor",
         by + " divides a model among stages and replicas, not within ops; write 1");
  refuse(parallel.context.degree > 1, "parallel.context",
         by + " divides a model among stages and replicas, not sequences; write 1");
  refuse(parallel.virtual_stages > 1, "parallel.virtual_stages",
         by + " gives a rank one stage; leave this key out");
  refuse(parallel.zero.stage > 1, "parallel.zero",
         by + " weighs stages whose ranks hold all parameters and gradients; write 1 or 0");
  refuse(study.model.contrast > 1, "partition",
         study.partition.method + " weighs single samples, and those of family " +
             std::string(to_string(study.model.family)) + " are told apart in groups");
  refuse(!study.training.microbatches.empty(), "training.microbatch",
         by + " takes microbatches of one size; write a number, or leave this key out");
  const ScheduleName* schedule = find_schedule(study.schedule.method);
  refuse(schedule != nullptr && schedule->stages != StagesPerRank::kOne, "schedule",
         by + " gives a rank one stage, and " + study.schedule.method +
             " needs at least 2; write gpipe or 1f1b, or leave this key out");
  refuse(is_said(study, "parallel.data") && study.training.global_batch % parallel.data != 0,
         "parallel.data",
         std::to_string(study.training.global_batch) + " sequences do not divide over " +
             std::to_string(parallel.data) + " replicas of every stage");
  refuse(study.recompute.method == RecomputeConfig::Method::kStageAware &&
             study.partition.method == "rannc",
         "recompute",
         "partition rannc weighs stages that recompute alike; write full, or leave this key out");
}

/// The study before anything is decided.
StudyDraft one_stage_of(const StudyDraft& draft) {
  StudyDraft one = draft;
  one.partition = {};
  one.schedule = {};
  one.schedule.method = "gpipe";
  one.parallel.pipeline = 1;
  one.parallel.data = 1;
  one.parallel.zero = {};
  one.parallel.d2d_buffer = 0;
  // How much each stage keeps is asked for where there are several.
  if (one.recompute.method == RecomputeConfig::Method::kStageAware) one.recompute = {};
  one.training.microbatch = one.training.global_batch;  // how many there are is not decided yet
  one.training.microbatches.clear();
  return one;
}

/// 0: the study does not say their size.
std::int64_t given_microbatches(const Study& study, std::int64_t each) {
  if (!is_said(study, "training.microbatch")) return 0;
  const std::int64_t batch = study.training.global_batch, size = study.training.microbatch;
  const std::int64_t samples = size * std::max<std::int64_t>(each, 1);
  if (batch % samples == 0) return batch / samples;
  fail_at(study, "training.microbatch",
          std::to_string(size) +
              (each > 0 ? " sequences on each of " + std::to_string(each) + " replicas"
                        : " sequences") +
              " do not divide global_batch " + std::to_string(batch));
}

/// The same number on each replica of every stage: then the degrees say it all.
bool is_even(const PlannedPipeline& plan) {
  const int first = plan.replicas.front();
  return std::ranges::all_of(plan.replicas, [&](int count) { return count == first; }) &&
         std::ranges::all_of(plan.microbatches,
                             [&](std::int64_t size) { return size % first == 0; });
}

void put(const PlannedPipeline& plan, StudyDraft& draft) {
  const bool size_said = is_said(draft, "training.microbatch");
  const bool data_said = is_said(draft, "parallel.data");
  const bool even = data_said || (!size_said && is_even(plan));
  const Origin origin = derived_origin(plan.reason);
  const Origin of_plan = derived_origin("decided with partition");
  const auto decide = [&](const char* key) { draft.origins[key] = of_plan; };
  draft.partition = {};
  draft.partition.method = "cuts";
  draft.partition.cuts = plan.cuts;
  draft.origins["partition"] = origin;
  ParallelConfig& parallel = draft.parallel;
  parallel.pipeline = static_cast<int>(plan.replicas.size());
  if (!is_said(draft, "parallel.pipeline")) decide("parallel.pipeline");
  const std::int64_t replicas = even ? plan.replicas.front() : 1;
  if (even) {
    parallel.data = plan.replicas.front();
    if (!data_said) decide("parallel.data");
  } else {
    draft.partition.replicas = plan.replicas;
  }
  if (parallel.placement.empty()) {
    parallel.placement = even ? full_placement("DPT") : "flat";
    decide("parallel.placement");
  }
  TrainingConfig& training = draft.training;
  if (!size_said) {
    const auto [least, most] = std::ranges::minmax(plan.microbatches);
    training.microbatch = most / replicas;
    if (least < most) {
      for (const std::int64_t size : plan.microbatches)
        training.microbatches.push_back(size / replicas);
    }
    decide("training.microbatch");
  }
  if (!says(draft, "schedule")) {
    draft.schedule.method = "gpipe";
    decide("schedule");
  }
  if (!says(draft, "recompute")) {
    draft.recompute.method = plan.recompute     ? RecomputeConfig::Method::kFull
                             : plan.stage_aware ? RecomputeConfig::Method::kStageAware
                                                : RecomputeConfig::Method::kNone;
    draft.recompute.ends = plan.recompute;  // a whole stage from its input
    for (const char* key : {"recompute", "recompute.method", "recompute.ends"}) decide(key);
  }
  if (plan.share) {
    draft.recompute.first = plan.share->first;
    draft.origins["recompute.first"] = derived_origin(plan.share->reason);
  }
  draft.planned = plan.lines;
}

}  // namespace

void plan_pipeline(StudyDraft& draft, const StudyResolvers& resolvers) {
  if (!plans_pipeline(draft.partition) || draft.has_mistake_in("partition")) return;
  PipelineRequest request;
  draft.attempt([&] {
    refuse_beside_plan(draft);
    if (is_said(draft, "parallel.pipeline")) request.stages = draft.parallel.pipeline;
    if (is_said(draft, "parallel.data")) request.each = draft.parallel.data;
    request.microbatches = given_microbatches(draft, request.each);
  });
  StudyDraft one = one_stage_of(draft);
  if (draft.mistakes.empty()) check_rules(one, resolvers);
  if (!one.mistakes.empty()) {
    draft = std::move(one);
    return;
  }
  const bool planned = draft.attempt([&] {
    if (!resolvers.plan_pipeline)
      fail_at(draft, "partition",
              draft.partition.method + " needs a planner of pipelines, and there is none");
    request.one_stage = std::move(one);
    request.partition = draft.partition;
    request.schedule = says(draft, "schedule") ? draft.schedule.method : "gpipe";
    request.shards_state = draft.parallel.zero.stage > 0;
    request.recompute = says(draft, "recompute");
    request.study_of = [&](const PlannedPipeline& plan) -> Study {
      StudyDraft candidate = draft;
      put(plan, candidate);
      check_rules(candidate, resolvers);
      if (!candidate.mistakes.empty()) throw ConfigError(candidate.mistakes);
      return candidate;
    };
    put(resolvers.plan_pipeline(request), draft);
  });
  if (!planned) draft = one_stage_of(draft);  // nothing more is wrong with what was not decided
}

}  // namespace trainyard
