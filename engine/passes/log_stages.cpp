#include "engine/passes/log_stages.h"

#include <algorithm>

namespace trainyard {

void log_stages(const TrainingGraph& training, const PartitionConfig& partition, PassLog& log) {
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
}

}  // namespace trainyard
