// What a step costs where the study says a price (cluster.price). Every device of the cluster is
// paid, idle ones too.
#pragma once

#include <cstdint>
#include <optional>

#include "study/study.h"

namespace trainyard {

/// In the currency of the price.
struct StepCost {
  double price = 0;  // per device and hour
  std::int64_t devices = 0;
  double per_step = 0;            // price x devices x iteration_time / 3,600
  double per_million_tokens = 0;  // per_step / tokens of a step x 10^6
};

/// nullopt: the study says no price.
std::optional<StepCost> step_cost(const Study& study, Seconds iteration_time, double tokens_per_s);

}  // namespace trainyard
