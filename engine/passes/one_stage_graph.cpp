#include "engine/passes/one_stage_graph.h"

#include <utility>

#include "engine/passes/compile.h"
#include "engine/plan/microbatch_sizes.h"

namespace trainyard {

namespace {

/// One microbatch of a step of one stage.
Plan with_one_stage(Plan plan) {
  plan.training.microbatch =
      local_sizes(plan.training, plan.parallel).front() / plan.parallel.batch_ranks();
  plan.training.microbatches.clear();
  plan.training.global_batch = plan.training.microbatch * plan.parallel.batch_ranks();
  plan.parallel.data = 1;
  plan.parallel.zero = {};
  plan.parallel.replicas.clear();
  plan.parallel.pipeline = 1;
  plan.parallel.virtual_stages = 1;
  plan.partition = {};
  plan.schedule = {};
  if (plan.recompute.method == RecomputeConfig::Method::kStageAware)
    plan.recompute.method = RecomputeConfig::Method::kFull;
  if (plan.recompute.method == RecomputeConfig::Method::kRotor) plan.recompute = {};
  return plan;
}

}  // namespace

std::variant<TrainingGraph, Infeasible> one_stage_graph(const Graph& model, Plan plan,
                                                        const SoftwareProfile& software) {
  return Compiler::training_graph(model, {with_one_stage(std::move(plan)), {}}, software);
}

}  // namespace trainyard
