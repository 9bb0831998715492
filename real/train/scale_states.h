// What delayed scaling keeps from step to step (engine/passes/fp8_products.h), as checkpoints have
// it: of each tensor that is cast the largest elements of 1024 steps and the scale that came of
// them, by a name that no layout changes. All ranks that have parts of a tensor have the same.
#pragma once

#include <string>
#include <vector>

#include "real/exec/rank_executor.h"

namespace trainyard {

struct ScaleState {
  std::string name;  // "fp8_history.decoder.layers.0.mlp.fc1.weight.input"
  std::vector<std::int64_t> shape;
  at::Tensor elements;  // a view of the rank's own
};

/// Those of the rank's stages; empty under other recipes.
std::vector<ScaleState> scale_states(RankExecutor& executor);

/// Whether this rank is the first of those that have the same ones.
bool has_first_scale_states(const RankExecutor& executor);

}  // namespace trainyard
