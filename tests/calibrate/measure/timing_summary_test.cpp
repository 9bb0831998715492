// Medians, their intervals, outliers and drift of timings whose answers are counted by hand.
#include "calibrate/measure/timing_summary.h"

#include <catch2/catch.hpp>

namespace trainyard::timing_summary_test {

TEST_CASE("the interval of a median is that of the order statistics") {
  // With 11 samples, P(Binomial(11, 1/2) < 3) = (1 + 11 + 55) / 2048 = 3.3 % <= 5 %, and with 4 it
  // is 11 %: the 3rd smallest and the 3rd largest enclose the median with 93 %. 1.00 ... 1.10: 1.02
  // to 1.08 around 1.05.
  std::vector<Seconds> samples;
  for (int i = 10; i >= 0; --i) samples.push_back(1 + 0.01 * i);
  const TimingSummary summary = summarise_timings(samples);
  CHECK(summary.median == Approx(1.05));
  CHECK(summary.interval == Approx(0.03 / 1.05));
  CHECK(summary.num_samples == 11);
  CHECK(summary.num_outliers == 0);
}

TEST_CASE("of few samples the interval is their range") {
  // Even the extremes of 4 enclose the median with 1 - 2/16 = 87.5 % only.
  const TimingSummary summary = summarise_timings({1.0, 1.1, 1.2, 1.3});
  CHECK(summary.median == Approx(1.15));
  CHECK(summary.interval == Approx(0.15 / 1.15));
  CHECK(summarise_timings({2.0}).interval == 0);
}

TEST_CASE("a sample far above the others is set aside") {
  const TimingSummary summary = summarise_timings({1.00, 1.01, 0.99, 1.02, 5.0, 0.98, 1.00});
  CHECK(summary.num_outliers == 1);
  CHECK(summary.num_samples == 6);
  CHECK(summary.median == Approx(1.00));
  CHECK(summary.interval < 0.03);
}

TEST_CASE("equal samples are no outliers of each other") {
  const TimingSummary summary = summarise_timings({1, 1, 1, 1, 1.1});
  CHECK(summary.num_outliers == 0);  // within 6 deviations of at least 2 %
}

TEST_CASE("a device that slows down has drifted, one that jitters has not") {
  CHECK_FALSE(find_drift({1.00, 1.02, 0.99, 1.01, 1.00, 1.02, 0.98, 1.01, 1.00}).drifted);
  const Drift slower = find_drift({1.00, 1.00, 1.00, 1.05, 1.05, 1.05, 1.10, 1.10, 1.10});
  CHECK(slower.drifted);
  CHECK(slower.change == Approx(0.10));
  CHECK(slower.worst == Approx(1.10 / 1.05 - 1));
  CHECK(find_drift({1.1, 1.1, 1.1, 1.0, 1.0, 1.0}).drifted);  // it has become faster
  CHECK_FALSE(find_drift({1, 2, 3}).drifted);                 // too few to say
  CHECK_FALSE(find_drift({}).drifted);
}

TEST_CASE("a slow reference says that a measurement was disturbed") {
  CHECK_FALSE(is_disturbed({1, 1}, 2));  // too few to say
  CHECK_FALSE(is_disturbed({1, 1.1, 1}, 1.1));
  CHECK(is_disturbed({1, 1.1, 1}, 1.2));
}

}  // namespace trainyard::timing_summary_test
