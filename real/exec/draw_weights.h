// The weights that a bucket begins with, drawn where they live.
#pragma once

#include <cstdint>

#include "real/exec/rank_plan.h"
#include "real/torch.h"

namespace trainyard {

/// Draws the bucket's weights (real/parameters/initial_values.h) on the host, in all threads of an
/// op, into `weights`, what the rank holds of the bucket, and, where it is defined, `master`, its
/// shard.
void draw_weights(const BucketState& bucket, std::int64_t seed, const at::Tensor& weights,
                  const at::Tensor& master);

}  // namespace trainyard
