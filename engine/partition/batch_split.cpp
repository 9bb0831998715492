#include "engine/partition/batch_split.h"

#include <cstddef>

namespace trainyard {

namespace {

/// `total` in `parts` parts: the `total % parts` behind `first`, round and round, have one more.
Numbered<std::int64_t> deal(std::int64_t total, std::int64_t parts, std::int64_t first) {
  Numbered<std::int64_t> dealt(parts, total / parts);
  for (std::int64_t i = 0; i < total % parts; ++i) ++dealt[(first + i) % parts];
  return dealt;
}

}  // namespace

BatchSplit split_batch(std::int64_t global_batch, std::int64_t num_microbatches,
                       std::int64_t num_ranks) {
  BatchSplit split;
  split.micro = deal(global_batch, num_microbatches, 0);
  for (std::int64_t k = 0; k < num_microbatches; ++k) {
    const std::int64_t samples = split.micro[k];
    split.local.push_back(deal(samples, num_ranks, k * (samples % num_ranks) % num_ranks));
  }
  return split;
}

}  // namespace trainyard
