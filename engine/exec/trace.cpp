#include "engine/exec/trace.h"

namespace trainyard {

Seconds TimeClasses::exposed_total() const {
  Seconds sum = 0;
  for (const auto& [kind, seconds] : exposed) sum += seconds;
  return sum;
}

Seconds TimeClasses::total() const {
  return compute + optimizer + exposed_total() + host + bubble;
}

}  // namespace trainyard
