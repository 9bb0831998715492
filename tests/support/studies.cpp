#include "tests/support/studies.h"

#include <stdexcept>
#include <utility>
#include <variant>

#include "engine/passes/apply_sharding.h"
#include "engine/passes/plan_mesh.h"
#include "engine/passes/plan_method.h"
#include "engine/passes/recompute.h"
#include "engine/passes/select_kernels.h"
#include "engine/passes/split_backward.h"
#include "engine/schedule/schedule_names.h"

namespace trainyard {

namespace {

template <typename Result>
Result value_of(std::variant<Result, Infeasible> answer) {
  if (const auto* reason = std::get_if<Infeasible>(&answer))
    throw std::runtime_error(reason->reason);
  return std::get<Result>(std::move(answer));
}

}  // namespace

Prepared prepare_text(const std::string& yaml, const std::vector<std::string>& sets,
                      const std::string& name) {
  std::vector<std::string> warnings;
  const StudyResolvers resolvers = make_resolvers(TRAINYARD_SOURCE_DIR, warnings);
  return prepare_study(read_study_text(yaml, name, sets, resolvers), resolvers);
}

Graph sharded_graph(const Prepared& prepared) {
  const Study& study = prepared.study;
  const bool flash = study.training.flash_attention == FlashAttention::kOn;
  PlannedGraph planned = value_of(
      method_plan(study.parallel).plan(select_kernels(prepared.model, prepared.software, flash)));
  return value_of(apply_sharding(std::move(planned.graph), std::move(planned.sharding)));
}

Numbered<StageForm> forms_of(const Prepared& prepared) {
  const Study& study = prepared.study;
  return stage_forms(value_of(schedule_by_name(study.schedule.method, study.parallel.pipeline,
                                               study.parallel.virtual_stages,
                                               static_cast<int>(study.num_microbatches()), false)));
}

StagedGraph staged_graph(const Prepared& prepared) {
  const Study& study = prepared.study;
  return value_of(partition_stages(
      sharded_graph(prepared), study.parallel.pipeline * study.parallel.virtual_stages,
      study.partition, scatter_gather_of(study.parallel), turning_stage(forms_of(prepared))));
}

TrainingGraph training_graph(const Prepared& prepared) {
  TrainingGraph training =
      differentiate(staged_graph(prepared), prepared.software, prepared.study.training.grad_dtype);
  const Study& study = prepared.study;
  recompute(training, study.recompute, prepared.software,
            kept_shares(study.recompute, study.schedule.method == "scp",
                        recomputing_stages(forms_of(prepared))));
  split_backward(training);
  return training;
}

Program compiled_program(const Prepared& prepared) {
  PassLog log;
  return value_of(
      compile(prepared.model, prepared.study, prepared.software, log, {.verify = true}));
}

}  // namespace trainyard
