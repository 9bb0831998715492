// Which layers each stage has, for people.
#pragma once

#include "engine/passes/pass_log.h"
#include "engine/passes/training_graph.h"
#include "engine/plan/plan.h"

namespace trainyard {

/// Fills log.first_layer and log.begins_at. A stage without layers begins where the next one does.
void log_stages(const TrainingGraph& training, const PartitionConfig& partition, PassLog& log);

}  // namespace trainyard
