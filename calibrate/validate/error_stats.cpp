#include "calibrate/validate/error_stats.h"

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"

namespace trainyard {

double error_percent(double predicted, double measured) {
  return 100 * (predicted - measured) / measured;
}

double quantile(std::vector<double> values, double q) {
  check(!values.empty() && q >= 0 && q <= 1, "a quantile of at least one value");
  std::sort(values.begin(), values.end());
  const double position = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  const double part = position - static_cast<double>(below);
  return values[below] + part * (values[above] - values[below]);
}

ErrorStats error_stats(const std::vector<NamedError>& errors) {
  ErrorStats stats;
  stats.n = errors.size();
  if (errors.empty()) return stats;
  std::vector<double> absolute;
  for (const NamedError& error : errors) {
    absolute.push_back(std::abs(error.percent));
    stats.mean_abs += absolute.back() / static_cast<double>(errors.size());
    stats.mean += error.percent / static_cast<double>(errors.size());
    if (absolute.back() > std::abs(stats.worst.percent) || stats.worst.id.empty()) {
      stats.worst = error;
    }
  }
  stats.median_abs = quantile(absolute, 0.5);
  stats.p90_abs = quantile(absolute, 0.9);
  return stats;
}

}  // namespace trainyard
