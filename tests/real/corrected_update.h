// One bucket's update by the optimizers' kernels, made with the norm or before it is known.
#pragma once

#include <cstdint>
#include <vector>

namespace trainyard {

struct BucketNumbers {
  std::vector<double> weights, first, second;  // second, first: of AdamW
};

struct UpdateTrial {
  bool sgd = false;
  bool fp32 = false;
  bool deferred = false;     // kernels that may not look at numbers
  bool was_updated = true;   // before the norm was known
  std::int64_t updates = 0;  // before this one
  double clip_norm = 1;
  double norm = 1;  // of all gradients, unscaled
  double loss_scale = 1;
  double weight_decay = 0.1;  // of the first half of the bucket
};

/// `gradient`: unscaled; it is scaled by loss_scale before the kernels see it.
BucketNumbers update_with_norm(const UpdateTrial& trial, const BucketNumbers& before,
                               const std::vector<double>& gradient);
/// The update without the norm, if it was made, and its correction.
BucketNumbers update_and_correct(const UpdateTrial& trial, const BucketNumbers& before,
                                 const std::vector<double>& gradient);

}  // namespace trainyard
