#include "models/parameter_forms.h"

#include <cmath>
#include <numbers>

namespace trainyard {

namespace {

double inverse_root(std::int64_t number) { return 1 / std::sqrt(static_cast<double>(number)); }

}  // namespace

ParameterForm uniform_by_fan_in(std::int64_t fan_in) {
  const double deviation = inverse_root(fan_in) / std::numbers::sqrt3;  // of +- b: b / sqrt(3)
  return {.init = Init::kUniform,
          .deviation = deviation,
          .bias = Init::kUniform,
          .bias_deviation = deviation};
}

ParameterForm kaiming_normal(std::int64_t fan) {
  return {.deviation = std::numbers::sqrt2 * inverse_root(fan)};
}

ParameterForm lecun_normal(std::int64_t fan_in) { return {.deviation = inverse_root(fan_in)}; }

ParameterForm xavier_uniform(std::int64_t in, std::int64_t out) {
  return {.init = Init::kUniform, .deviation = std::numbers::sqrt2 * inverse_root(in + out)};
}

}  // namespace trainyard
