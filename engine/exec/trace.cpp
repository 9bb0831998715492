#include "engine/exec/trace.h"

namespace trainyard {

Seconds TimeClasses::exposed_total() const {
  Seconds sum = 0;
  for (const auto& [kind, seconds] : exposed) sum += seconds;
  return sum;
}

Seconds TimeClasses::total() const { return compute + optimizer + exposed_total() + host + bubble; }

void add_covered(TimeClasses& to, const std::string& kind, Seconds seconds) {
  if (seconds <= 0) return;
  (kind == kHostUpdates ? to.optimizer : to.exposed[kind]) += seconds;
}

void add_scaled(TimeClasses& to, const TimeClasses& part, double factor) {
  to.compute += factor * part.compute;
  to.optimizer += factor * part.optimizer;
  for (const auto& [kind, seconds] : part.exposed) to.exposed[kind] += factor * seconds;
  to.host += factor * part.host;
  to.bubble += factor * part.bubble;
}

}  // namespace trainyard
