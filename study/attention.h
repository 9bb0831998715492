// Which models have attention, whose kernels and scores keys of the study speak of.
#pragma once

#include "engine/plan/model_config.h"

namespace trainyard {

/// An imported model may: its graph knows.
inline bool may_attend(const ModelConfig& model) {
  return !is_convolutional(model.family) && model.family != Family::kNcf &&
         model.family != Family::kMamba2;
}

}  // namespace trainyard
