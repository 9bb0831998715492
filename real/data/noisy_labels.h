// Labels of generated samples: the class that a sample shows, with probability 1 - e, e = 0.1, else
// any other class, uniformly. A perfect model of K classes reaches, exactly,
//     -(1 - e) ln(1 - e) - e ln(e / (K - 1)) nats.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/data/draws.h"

namespace trainyard {

inline constexpr double kOtherLabel = 0.1;  // e

inline double least_noisy_loss(std::int64_t classes) {
  constexpr double e = kOtherLabel;
  return -(1 - e) * std::log(1 - e) - e * std::log(e / static_cast<double>(classes - 1));
}

inline std::int64_t noisy_label(std::int64_t shown, std::int64_t classes, Draws& draws) {
  return draws.uniform() < kOtherLabel ? (shown + 1 + draws.below(classes - 1)) % classes : shown;
}

}  // namespace trainyard
