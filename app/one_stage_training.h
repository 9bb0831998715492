// The training graph of a model with one stage, for what profiles or cuts it.
#pragma once

#include "app/prepare.h"
#include "engine/passes/training_graph.h"

namespace trainyard {

/// Throws ConfigError, at the key, where the model has no plan with one stage.
TrainingGraph one_stage_training(const Prepared& prepared);

}  // namespace trainyard
