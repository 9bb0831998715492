#include "report/step_cost.h"

namespace trainyard {

std::optional<StepCost> step_cost(const Study& study, Seconds iteration_time, double tokens_per_s) {
  if (!(study.price > 0)) return std::nullopt;
  StepCost cost;
  cost.price = study.price;
  cost.devices = study.cluster.num_devices;
  const double per_second = cost.price * static_cast<double>(cost.devices) / 3600;
  cost.per_step = per_second * iteration_time;
  cost.per_million_tokens = per_second / tokens_per_s * 1e6;
  return cost;
}

}  // namespace trainyard
