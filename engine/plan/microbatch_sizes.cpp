#include "engine/plan/microbatch_sizes.h"

#include <algorithm>
#include <functional>

namespace trainyard {

std::vector<std::int64_t> microbatch_sizes(const TrainingConfig& training) {
  if (training.microbatches.empty()) return {training.microbatch};
  std::vector<std::int64_t> sizes = training.microbatches;
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

Numbered<std::size_t> size_of_microbatches(const TrainingConfig& training) {
  const std::vector<std::int64_t> sizes = microbatch_sizes(training);
  Numbered<std::size_t> out;
  if (sizes.size() == 1) return out;
  for (const std::int64_t size : training.microbatches) {
    out.push_back(
        static_cast<std::size_t>(std::find(sizes.begin(), sizes.end(), size) - sizes.begin()));
  }
  return out;
}

std::vector<std::int64_t> samples_before(const TrainingConfig& training, int num_microbatches) {
  std::vector<std::int64_t> out;
  std::int64_t before = 0;
  for (int mb = 0; mb < num_microbatches; ++mb) {
    out.push_back(before);
    before +=
        training.microbatches.empty() ? training.microbatch : training.microbatches.begin()[mb];
  }
  return out;
}

}  // namespace trainyard
