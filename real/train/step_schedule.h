// What changes from step to step: the learning rate, and the scale of an fp16 loss.
#pragma once

#include <cstdint>

#include "study/study.h"

namespace trainyard {

/// Rate of step `step` (from 0) of `steps`: rises linearly over the warm-up, then stays, or falls
/// to 0 along half a cosine (Loshchilov and Hutter, 2017).
double learning_rate(const LearningRate& rate, std::int64_t step, std::int64_t steps);

/// Dynamic loss scaling (Micikevicius et al. 2018, section 3.2): halved when gradients overflow,
/// doubled after 2,000 steps without. Other precisions, and a scale that the study fixes, never
/// change.
class LossScale {
 public:
  explicit LossScale(const TrainingConfig& training);

  double value() const { return value_; }
  std::int64_t good_steps() const { return good_steps_; }
  bool dynamic() const { return dynamic_; }
  void resume(double value, std::int64_t good_steps);
  void step_done(bool finite);

 private:
  bool dynamic_;
  double value_;
  std::int64_t good_steps_ = 0;
};

}  // namespace trainyard
