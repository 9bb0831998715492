#include "engine/passes/log_stages.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/passes/recompute_regions.h"

namespace trainyard {

namespace {

/// "encoder.layers.3.norm_1 to encoder.final_norm": the modules of a stage's first op and its last.
void log_modules(const TrainingGraph& training, PassLog& log) {
  Numbered<std::pair<std::string, std::string>> of_stage(log.begins_at.size());
  for (const Instruction& op : training.forward) {
    if (op.kind == OpKind::kSend) continue;
    auto& [first, last] = of_stage[op.stage];
    last = training.graph.modules[op.module];
    if (first.empty()) first = last;
  }
  for (std::size_t stage = 0; stage < of_stage.size(); ++stage) {
    const auto& [first, last] = of_stage[stage];
    log.begins_at[stage] = first == last ? first : first + " to " + last;
  }
}

}  // namespace

void log_stages(const TrainingGraph& training, const Plan& plan, const Numbered<double>& kept,
                PassLog& log) {
  const PartitionConfig& partition = plan.partition;
  log.kept = kept;
  if (plan.recompute.method == RecomputeConfig::Method::kStageAware ||
      plan.recompute.method == RecomputeConfig::Method::kGroup)
    log.units = num_units(training, plan.recompute.unit);
  const int stages = training.num_stages;
  log.first_layer.assign(stages + 1, training.graph.num_layers);
  log.last_layer.assign(stages, -1);
  for (const Instruction& op : training.forward) {
    if (op.layer < 0) continue;
    std::int64_t& first = log.first_layer[op.stage];
    first = std::min(first, std::int64_t{op.layer});
    if (op.kind != OpKind::kSend)
      log.last_layer[op.stage] = std::max(log.last_layer[op.stage], std::int64_t{op.layer});
  }
  for (int s = stages; s-- > 0;)
    log.first_layer[s] = std::min(log.first_layer[s], log.first_layer[s + 1]);
  log.begins_at.assign(stages, "");
  for (std::size_t i = 0; i < partition.cuts.size(); ++i)
    log.begins_at[i + 1] = partition.cuts[i].at;
  if (partition.method == "smp") log_modules(training, log);
}

}  // namespace trainyard
