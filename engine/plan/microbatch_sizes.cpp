#include "engine/plan/microbatch_sizes.h"

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>

#include "engine/base/place_of.h"

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
    out.push_back(place_of(sizes, size));
  }
  return out;
}

SequenceRange sequences_of_replica(std::int64_t sequences, std::int64_t replicas,
                                   std::int64_t replica) {
  const std::int64_t each = sequences / replicas, more = sequences % replicas;
  const auto begin = [&](std::int64_t r) { return r * each + std::min(r, more); };
  return {begin(replica), begin(replica + 1)};
}

std::vector<std::int64_t> local_sizes(const std::vector<std::int64_t>& sizes,
                                      const std::vector<int>& replicas) {
  if (replicas.empty()) return sizes;
  std::set<std::int64_t, std::greater<>> local;
  for (const std::int64_t sequences : sizes) {
    for (const int of : replicas) {
      // The first has the most, the last the fewest, and they differ by one at most.
      for (const int replica : {0, of - 1})
        local.insert(sequences_of_replica(sequences, of, replica).size());
    }
  }
  local.erase(0);  // of too many replicas: compile() has no plan
  return {local.begin(), local.end()};
}

std::vector<std::int64_t> local_sizes(const TrainingConfig& training,
                                      const ParallelConfig& parallel) {
  std::vector<std::int64_t> sizes = local_sizes(microbatch_sizes(training), parallel.replicas);
  for (std::int64_t& size : sizes) size *= parallel.batch_ranks();
  return sizes;
}

std::vector<std::int64_t> samples_before(const Plan& plan, std::int32_t pipeline_rank,
                                         std::int64_t replica) {
  const auto& [training, parallel] = std::tie(plan.training, plan.parallel);
  std::vector<std::int64_t> out;
  std::int64_t before = 0;  // of the microbatches before, as the study has their sizes
  for (std::int64_t mb = 0; mb < plan.num_microbatches(); ++mb) {
    const std::int64_t size =
        training.microbatches.empty() ? training.microbatch : training.microbatches[mb];
    out.push_back(
        before +
        (parallel.replicas.empty()
             ? replica * (training.global_batch / parallel.data)
             : sequences_of_replica(size, parallel.replicas_at(pipeline_rank), replica).begin));
    before += size * parallel.batch_ranks();
  }
  return out;
}

}  // namespace trainyard
