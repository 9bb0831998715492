#include "engine/passes/pass_inputs.h"

#include <utility>

#include "engine/passes/gather_units.h"
#include "engine/passes/pair_segments.h"
#include "engine/passes/plan_megatron.h"
#include "engine/passes/plan_mesh.h"
#include "engine/passes/recompute.h"
#include "engine/plan/microbatch_sizes.h"

namespace trainyard {

PassSource pass_source(const Plan& plan, const PipelineLinks& links,
                       const PipelineSchedule& schedule, const SoftwareProfile& software) {
  PassSource source{plan, links, software, stage_forms(schedule), {}, {}, {}};
  source.kept =
      kept_shares(plan.recompute, plan.schedule.method == "scp", recomputing_stages(source.forms));
  source.pairs = stage_pairs(schedule, size_of_microbatches(plan.training));
  source.successions = gathering_calls(plan, schedule);
  return source;
}

AmaxAxes amax_axes(const PassSource& of) {
  const DeviceMesh mesh = graph_mesh_of(of.plan.parallel);
  const MegatronPlan plan = megatron_plan(of.plan.parallel);
  const auto of_replica = static_cast<AxisSet>(set_of(plan.tensor) | set_of(context_axes(mesh)));
  const auto all = static_cast<AxisSet>(of_replica | set_of(plan.data));
  return {of.software.fp8_amax_of_replicas ? all : of_replica, all};
}

Numbered<StageForm> forms_of_segments(const PassSource& of) {
  Numbered<StageForm> forms = of.forms;
  // The training graph has it; of segments, those ask whose parameters stay between the two.
  for (StageForm& form : forms) form.at_once = form.at_once && shards_parameters(of.plan.parallel);
  return forms;
}

ParallelConfig parallel_of_segments(const PassSource& of) {
  ParallelConfig parallel = of.plan.parallel;
  if (of.links.empty()) parallel.d2d_buffer = 0;
  if (!owns_parameters(parallel)) parallel = with_few_replicas(std::move(parallel));
  parallel.placement = ParallelConfig{}.placement;
  return parallel;
}

TrainingConfig training_of_segments(const PassSource& of) {
  TrainingConfig training = of.plan.training;
  training.global_batch = 0;
  training.microbatches = microbatch_sizes(training);
  return training;
}

}  // namespace trainyard
