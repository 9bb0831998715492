#include "real/train/step_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

namespace trainyard {

namespace {
constexpr double kFirstScale = 65536;
constexpr std::int64_t kGrowthInterval = 2000;
}  // namespace

double learning_rate(const LearningRate& rate, std::int64_t step, std::int64_t steps) {
  if (step < rate.warmup) {
    return rate.peak * static_cast<double>(step + 1) / static_cast<double>(rate.warmup);
  }
  if (rate.schedule == "constant") return rate.peak;
  const auto span = static_cast<double>(std::max<std::int64_t>(steps - rate.warmup, 1));
  const double share = std::min(1.0, static_cast<double>(step - rate.warmup) / span);
  return rate.peak * 0.5 * (1.0 + std::cos(std::numbers::pi * share));
}

LossScale::LossScale(const TrainingConfig& training)
    : dynamic_(training.precision == DType::kFp16 && training.loss_scale == "dynamic"),
      value_(training.precision != DType::kFp16 ? 1.0
             : dynamic_                         ? kFirstScale
                                                : std::stod(training.loss_scale)) {}

void LossScale::resume(double value, std::int64_t good_steps) {
  value_ = value;
  good_steps_ = good_steps;
}

void LossScale::step_done(bool finite) {
  if (!dynamic_) return;
  if (!finite) {
    value_ = std::max(value_ / 2, 1.0);
    good_steps_ = 0;
  } else if (++good_steps_ == kGrowthInterval) {
    value_ *= 2;
    good_steps_ = 0;
  }
}

}  // namespace trainyard
