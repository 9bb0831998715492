#include "calibrate/measure/timing_summary.h"

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"

namespace trainyard {

namespace {

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/// The largest k whose k-th smallest and k-th largest of n enclose the median with 90 %; 0: none
/// does.
std::size_t enclosing_rank(std::size_t n) {
  // P(Binomial(n, 1/2) < k) grows with k; terms by recursion from (1/2)^n.
  double term = std::pow(0.5, static_cast<double>(n)), below = 0;
  std::size_t k = 0;
  while (k < n / 2) {
    below += term;
    if (below > 0.05) break;
    ++k;
    term *= static_cast<double>(n - k + 1) / static_cast<double>(k);
  }
  return k;
}

}  // namespace

TimingSummary summarise_timings(std::vector<Seconds> samples) {
  check(!samples.empty(), "a summary of no timings");
  TimingSummary out;
  const Seconds middle = median_of(samples);
  std::vector<double> deviations;
  for (const Seconds sample : samples) deviations.push_back(std::abs(sample - middle));
  constexpr double kNormal = 1.4826, kDeviations = 6, kLeast = 0.02;
  const double deviation = std::max(kNormal * median_of(deviations), kLeast * middle);
  const std::size_t before = samples.size();
  std::erase_if(samples, [&](Seconds sample) { return sample > middle + kDeviations * deviation; });
  out.num_samples = static_cast<int>(samples.size());
  out.num_outliers = static_cast<int>(before - samples.size());
  std::sort(samples.begin(), samples.end());
  out.median = median_of(samples);
  const std::size_t k = enclosing_rank(samples.size());
  const Seconds low = samples[k == 0 ? 0 : k - 1],
                high = samples[samples.size() - (k == 0 ? 1 : k)];
  out.interval = out.median > 0 ? (high - low) / 2 / out.median : 0;
  return out;
}

double relative_spread(std::vector<double> values) {
  constexpr std::size_t kFew = 5;
  if (values.size() < kFew) return 0;
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return values[static_cast<std::size_t>(
        std::lround(share * static_cast<double>(values.size() - 1)))];
  };
  const double middle = median_of(values);
  return middle > 0 ? (at(0.95) - at(0.05)) / 2 / middle : 0;
}

Drift find_drift(const std::vector<Seconds>& references) {
  Drift drift;
  if (references.empty()) return drift;
  const double middle = median_of(references);
  drift.worst = *std::max_element(references.begin(), references.end()) / middle - 1;
  const std::size_t third = references.size() / 3;
  if (third < 2) return drift;
  const auto part = static_cast<std::ptrdiff_t>(third);
  drift.change = median_of({references.end() - part, references.end()}) /
                     median_of({references.begin(), references.begin() + part}) -
                 1;
  drift.drifted = std::abs(drift.change) > 0.05;
  return drift;
}

bool is_disturbed(const std::vector<Seconds>& earlier, Seconds reference) {
  return earlier.size() >= 3 && reference > 1.15 * median_of(earlier);
}

}  // namespace trainyard
