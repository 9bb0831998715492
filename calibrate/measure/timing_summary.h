// What repeated timings of the same thing say: the median, how well it is known, and what was set
// aside.
#pragma once

#include <vector>

#include "engine/base/units.h"

namespace trainyard {

struct TimingSummary {
  Seconds median = 0;
  double interval = 0;  // half of the median's 90 % interval, over the median
  int num_samples = 0;  // outliers out
  int num_outliers =
      0;  // beyond 6 normal deviations above the median, estimated by the median deviation
};

/// The interval is that of the order statistics: the k-th smallest and largest of n samples enclose
/// the median with probability 1 - 2 P(Binomial(n, 1/2) < k). Of fewer than 5 samples none encloses
/// it that surely: then it is their range. `samples`: at least one.
TimingSummary summarise_timings(std::vector<Seconds> samples);

/// Half of the range of the middle nine tenths of `values`, over their median; 0 of fewer than 5.
double relative_spread(std::vector<double> values);

/// How far a device's speed has drifted while it was measured: timings of one reference kernel, in
/// the order in which they were made.
struct Drift {
  double change = 0;     // median of the last third over that of the first, minus 1
  double worst = 0;      // largest of all over the median, minus 1
  bool drifted = false;  // change beyond 5 %, either way
};
Drift find_drift(const std::vector<Seconds>& references);

/// Whether the reference that was timed beside a measurement is so much slower than before that it
/// should be made again: 15 % above the median of at least 3 earlier ones.
bool is_disturbed(const std::vector<Seconds>& earlier, Seconds reference);

}  // namespace trainyard
