#include "engine/config/microbatch_sizes.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace trainyard {

std::vector<std::int64_t> microbatch_sizes(const TrainingConfig& training) {
  if (training.microbatches.empty()) return {training.microbatch};
  std::vector<std::int64_t> sizes = training.microbatches;
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

std::vector<std::size_t> size_of_microbatches(const TrainingConfig& training) {
  const std::vector<std::int64_t> sizes = microbatch_sizes(training);
  std::vector<std::size_t> out;
  if (sizes.size() == 1) return out;
  for (const std::int64_t size : training.microbatches) {
    out.push_back(static_cast<std::size_t>(std::find(sizes.begin(), sizes.end(), size) - sizes.begin()));
  }
  return out;
}

std::int64_t samples_before(const TrainingConfig& training, std::int64_t mb) {
  if (training.microbatches.empty()) return mb * training.microbatch;
  return std::accumulate(training.microbatches.begin(), training.microbatches.begin() + mb, std::int64_t{0});
}

}  // namespace trainyard
