// Which layers each stage has, for people.
#pragma once

#include "engine/passes/pass_log.h"
#include "engine/passes/training_graph.h"
#include "engine/plan/plan.h"

namespace trainyard {

/// Fills log.first_layer and log.begins_at, log.kept, and log.units where it counts some. A stage
/// without layers begins where the next one does. Of modules on devices begins_at says which they
/// are; a stage that has none passes values on.
void log_stages(const TrainingGraph& training, const Plan& plan, const Numbered<double>& kept,
                PassLog& log);

}  // namespace trainyard
