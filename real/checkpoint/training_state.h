// The scalars of a training run that a checkpoint keeps beside the tensors.
#pragma once

#include <cstdint>
#include <string>

#include "real/checkpoint/checkpoint_info.h"
#include "real/checkpoint/run_record.h"

namespace trainyard {

/// How masks of dropouts are drawn. 1: those of one module are alike; 2: each has its own.
inline constexpr std::int64_t kMaskRule = 2;

struct TrainingState {
  std::int64_t updates = 0;  // steps that changed the weights
  double loss_scale = 1;
  std::int64_t good_steps = 0;  // since the scale changed last
  std::int64_t mask_rule = kMaskRule;
  RunRecord run = {};
};

std::string training_state_json(const TrainingState& state);

/// The state in `info`, which was read from the file `index`. `otherwise`: what it does not say, as
/// earlier versions do not. ConfigError with the file and the key where a value is none that a run
/// can have.
TrainingState read_training_state(const CheckpointInfo& info, const std::string& index,
                                  const TrainingState& otherwise);

}  // namespace trainyard
