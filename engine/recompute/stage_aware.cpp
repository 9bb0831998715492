#include "engine/recompute/stage_aware.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace trainyard {

std::vector<double> stage_aware_shares(int num_stages, double first, bool shifted_critical_path) {
  std::vector<double> kept(static_cast<std::size_t>(num_stages), 1);
  for (int i = 0; i + 1 < num_stages; ++i) {
    kept[static_cast<std::size_t>(i)] =
        std::min(1.0, first * (num_stages - 1) / (num_stages - 1 - i));
  }
  if (shifted_critical_path && num_stages > 2) kept[kept.size() - 2] = kept[kept.size() - 3];
  return kept;
}

int recomputed_layers(int layers, double share) {
  constexpr double kRounding = 1e-9;  // 24 x (1 - 0.875) is 3, however it is stored
  return static_cast<int>(std::floor(layers * (1 - share) + kRounding));
}

}  // namespace trainyard
