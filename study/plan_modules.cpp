// Staged resolution of a study whose partition is smp: the model with one stage is checked, its
// modules are put on devices, and the study goes on with the stages that follow.
#include <algorithm>
#include <string>
#include <utility>

#include "engine/schedule/schedule_names.h"
#include "study/study_origin.h"
#include "study/study_parts.h"

namespace trainyard {

namespace {

void refuse_beside_modules(const Study& study) {
  const auto refuse = [&](bool wrong, const std::string& key, const std::string& problem) {
    if (wrong) fail_at(study, key, problem);
  };
  refuse(!is_said(study, "parallel.pipeline") && study.partition.assign.empty(),
         "parallel.pipeline",
         "partition smp divides modules among the pipeline ranks; say how many");
  refuse(study.parallel.virtual_stages > 1, "parallel.virtual_stages",
         "partition smp says which stages a rank has; leave this key out");
  const ScheduleName* schedule = find_schedule(study.schedule.method);
  refuse(schedule != nullptr && schedule->stages != StagesPerRank::kOne, "schedule",
         "partition smp says which stages a rank has, and " + study.schedule.method +
             " needs at least 2 of each; write gpipe, 1f1b or opportunistic");
  refuse(study.schedule.mode == "fast" && is_said(study, "partition.routing") &&
             study.partition.routing == PartitionConfig::Routing::kParent,
         "partition.routing",
         "schedule.mode fast sends from module to module; write direct, or leave this key out");
}

/// One microbatch on one device, for which modules are weighed.
StudyDraft one_device_of(const StudyDraft& draft) {
  StudyDraft one = draft;
  one.partition = {};
  one.schedule = {};
  one.schedule.method = "gpipe";
  one.recompute = {};
  one.offload = {};
  one.parallel.pipeline = 1;
  one.parallel.data = 1;
  one.parallel.zero = {};
  one.parallel.d2d_buffer = 0;
  one.training.cpu_offload = false;
  one.training.microbatches.clear();
  one.training.global_batch = one.training.microbatch * one.parallel.batch_ranks();
  return one;
}

/// A study that names its stages' ranks says what follows from where its modules lie.
void check_given_stages(const Study& study, const Numbered<std::int32_t>& on) {
  if (study.partition.on.empty() || study.partition.on == on) return;
  std::string text;
  for (const std::int32_t rank : on) text += " " + std::to_string(rank);
  fail_at(study, "partition.on",
          "modules lie so that stages are on ranks" + (text.empty() ? " one by one" : text) +
              "; write these, or leave this key out");
}

}  // namespace

void plan_modules(StudyDraft& draft, const StudyResolvers& resolvers) {
  if (draft.partition.method != "smp" || draft.has_mistake_in("partition")) return;
  draft.attempt([&] { refuse_beside_modules(draft); });
  StudyDraft one = one_device_of(draft);
  if (draft.mistakes.empty()) check_rules(one, resolvers);
  if (!one.mistakes.empty()) {
    draft = std::move(one);
    return;
  }
  if (draft.schedule.mode == "fast") {
    draft.partition.routing = PartitionConfig::Routing::kDirect;
    draft.origins["partition.routing"] = derived_origin("schedule.mode fast");
  }
  const bool planned = draft.attempt([&] {
    if (!resolvers.plan_modules)
      fail_at(draft, "partition", "smp needs a planner of modules, and there is none");
    const std::int64_t devices = is_said(draft, "parallel.pipeline") ? draft.parallel.pipeline : 0;
    PlannedModules plan = resolvers.plan_modules({one, draft.partition, devices});
    check_given_stages(draft, plan.on);
    if (draft.partition.assign.empty()) draft.origins["partition"] = derived_origin(plan.reason);
    draft.partition.assign = std::move(plan.assign);
    draft.partition.fallback = plan.fallback;
    draft.partition.on = std::move(plan.on);
    draft.partition.work = std::move(plan.work);
    draft.planned = std::move(plan.lines);
  });
  if (!planned) draft = one_device_of(draft);  // nothing more is wrong with what was not decided
}

}  // namespace trainyard
