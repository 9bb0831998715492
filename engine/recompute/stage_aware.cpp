#include "engine/recompute/stage_aware.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>

#include "engine/base/sort_unique.h"

namespace trainyard {

Numbered<double> stage_aware_shares(int num_stages, double first, bool shifted_critical_path) {
  Numbered<double> kept(num_stages, 1);
  for (int i = 0; i + 1 < num_stages; ++i) {
    kept[i] = std::min(1.0, first * (num_stages - 1) / (num_stages - 1 - i));
  }
  if (shifted_critical_path && num_stages > 2) kept[kept.size() - 2] = kept[kept.size() - 3];
  return kept;
}

int num_recomputed(int units, double share) {
  constexpr double kRounding = 1e-9;  // 24 x (1 - 0.875) is 3, however it is stored
  return static_cast<int>(std::floor(units * (1 - share) + kRounding));
}

Numbered<double> stage_aware_use(const StageAwareMemory& memory, double first) {
  const auto stages = static_cast<int>(memory.layers.size());
  const Numbered<double> shares = stage_aware_shares(stages, first, memory.shifted_critical_path);
  Numbered<double> use;
  for (int stage = 0; stage < stages; ++stage) {
    const bool shifted = memory.shifted_critical_path && stage == stages - 2;
    const int in_flight = std::min(memory.microbatches, shifted ? 3 : stages - stage);
    const int again = num_recomputed(memory.layers[stage], shares[stage]);
    const double of_microbatch =
        (memory.layers[stage] - again) * memory.kept + again * memory.recomputed;
    use.push_back(in_flight * of_microbatch + (again > 0 ? memory.kept - memory.recomputed : 0));
  }
  return use;
}

Numbered<double> first_share_steps(const Numbered<int>& layers, bool shifted_critical_path) {
  // What is recomputed is rounded down, so stage i keeps no more than k of its layers up to
  // first = k / layers (s-1-i) / (s-1); stage s-2 of the shifted critical path as stage s-3.
  const auto stages = static_cast<int>(layers.size());
  Numbered<double> steps = {0};
  for (int stage = 0; stage + 1 < stages; ++stage) {
    const int all = layers[stage];
    const bool as_before = shifted_critical_path && stages > 2 && stage == stages - 2;
    const int behind = as_before ? 2 : stages - 1 - stage;
    for (int k = 1; k <= all; ++k)
      steps.push_back(std::min(1.0, static_cast<double>(k) / all * behind / (stages - 1)));
  }
  sort_unique(steps);
  return steps;
}

std::optional<double> largest_first_share(const StageAwareMemory& memory) {
  const auto fits = [&](double first) {
    const Numbered<double> use = stage_aware_use(memory, first);
    return std::equal(use.begin(), use.end(), memory.free.begin(), std::less_equal<>());
  };
  // A kept layer takes no less than a recomputed one, but for the last, whose working memory goes:
  // so a larger share may fit where a smaller one does not.
  Numbered<double> steps = first_share_steps(memory.layers, memory.shifted_critical_path);
  if (steps.back() < 1) steps.push_back(1);  // stages without layers
  const auto found = std::find_if(steps.rbegin(), steps.rend(), fits);
  return found == steps.rend() ? std::nullopt : std::optional(*found);
}

}  // namespace trainyard
