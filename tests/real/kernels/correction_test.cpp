// An update that was made before the norm was known, and corrected, against one that waited for it:
// weights and moments, of more elements than are corrected at a time.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "tests/real/corrected_update.h"

namespace trainyard::correction_test {

namespace {

constexpr std::size_t kElements = 150'000;  // 2 x 75,000: a piece of 65,536 and a rest in each half

/// Drawn once: trials have the same ones.
const std::vector<double>& normal(double deviation, unsigned seed) {
  static std::map<std::pair<double, unsigned>, std::vector<double>> drawn;
  std::vector<double>& out = drawn[{deviation, seed}];
  if (!out.empty()) return out;
  std::mt19937 random(seed);
  std::normal_distribution<double> draw(0, deviation);
  out.resize(kElements);
  for (double& number : out) number = draw(random);
  return out;
}

/// As a run has them after some updates; the first update begins with zero moments.
BucketNumbers before_update(const UpdateTrial& trial) {
  BucketNumbers out{normal(0.02, 1), normal(1e-3, 2), normal(1e-3, 3)};
  for (double& number : out.second) number *= number;
  for (auto* numbers : {&out.weights, &out.first, &out.second}) {
    for (double& number : *numbers) number = static_cast<float>(number);  // as fp32 has them, too
  }
  if (trial.updates == 0) {
    std::fill(out.first.begin(), out.first.end(), 0);
    std::fill(out.second.begin(), out.second.end(), 0);
  }
  return out;
}

/// Largest distance, relative to the root of the mean square of `a`.
double distance(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double squares = 0, apart = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    squares += a[i] * a[i];
    apart = std::max(apart, std::abs(a[i] - b[i]));
  }
  return a.empty() ? 0 : apart / (std::sqrt(squares / static_cast<double>(a.size())) + 1e-30);
}

/// The root of the mean square of the distance, relative to that of `a`.
double typical_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double squares = 0, apart = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    squares += a[i] * a[i];
    apart += (a[i] - b[i]) * (a[i] - b[i]);
  }
  return std::sqrt(apart / squares);
}

void check_trial(const UpdateTrial& trial, double tolerance) {
  CAPTURE(trial.sgd, trial.fp32, trial.deferred, trial.was_updated, trial.updates, trial.norm,
          trial.loss_scale);
  const BucketNumbers before = before_update(trial);
  const std::vector<double>& gradient = normal(2e-3, 4);
  const BucketNumbers expected = update_with_norm(trial, before, gradient);
  const BucketNumbers corrected = update_and_correct(trial, before, gradient);
  CHECK(distance(expected.weights, corrected.weights) <= tolerance);
  CHECK(distance(expected.first, corrected.first) <= tolerance);
  CHECK(distance(expected.second, corrected.second) <= tolerance);
  // Where the update was not to be made, all is as before: not by having done nothing.
  const bool finite = std::isfinite(trial.norm);
  CHECK((distance(before.weights, expected.weights) > 0) == finite);
}

}  // namespace

TEST_CASE("a correction leaves what the update with the norm would have left") {
  const bool sgd = GENERATE(false, true), was_updated = GENERATE(true, false),
             deferred = GENERATE(false, true);
  const std::int64_t updates = GENERATE(0, 1, 300);
  const double norm = GENERATE(1.25, 4.0, 20.0, std::numeric_limits<double>::infinity());
  for (const double loss_scale : {1.0, 1024.0}) {
    UpdateTrial trial;
    trial.sgd = sgd;
    trial.was_updated = was_updated;
    trial.deferred = deferred;
    trial.updates = updates;
    trial.norm = norm;
    trial.loss_scale = loss_scale;
    // fp64's rounding is 1e-16 of v', which is up to (norm / clip)^2 = 400 times v", and v's root
    // is what is divided by.
    check_trial(trial, 1e-11);
  }
}

TEST_CASE("a correction in fp32 loses what the second moment had no bits for") {
  // v' = b2 v + (1-b2) g^2 is rounded to eps v', eps = 2^-24, and so are the products of which it
  // is the sum; that stays in v", whatever is left of it. m' likewise. Each element is held against
  // that; weights, in which the root of v" divides, against what is typical.
  constexpr double kEps = 1.0 / (1 << 24);
  UpdateTrial trial;
  trial.fp32 = true;
  const std::vector<double>& gradient = normal(2e-3, 4);
  for (const std::int64_t updates : {0, 1, 300}) {
    for (const double norm : {1.25, 4.0, 20.0, std::numeric_limits<double>::infinity()}) {
      CAPTURE(updates, norm);
      trial.updates = updates;
      trial.norm = norm;
      const BucketNumbers before = before_update(trial);
      const BucketNumbers expected = update_with_norm(trial, before, gradient);
      const BucketNumbers corrected = update_and_correct(trial, before, gradient);
      int beyond = 0;
      for (std::size_t i = 0; i < kElements; ++i) {
        const double g = gradient[i], m = 0.9 * before.first[i] + 0.1 * g,
                     v = 0.95 * before.second[i] + 0.05 * g * g;
        const double of_m = 4 * kEps * (std::abs(m) + std::abs(g)), of_v = 4 * kEps * v;
        if (std::abs(corrected.first[i] - expected.first[i]) > of_m) ++beyond;
        if (std::abs(corrected.second[i] - expected.second[i]) > of_v) ++beyond;
      }
      CHECK(beyond == 0);
      // Half of eps v'/v", up to 400 eps / 2 = 1.2e-5 of the direction, which is a step of 0.01 for
      // weights of 0.02.
      CHECK(typical_distance(expected.weights, corrected.weights) < 1e-5);
    }
  }
}

TEST_CASE("a correction of an update that was right changes nothing") {
  UpdateTrial trial;
  trial.norm = 0.5;  // the clip is 1
  trial.updates = 1;
  const BucketNumbers before = before_update(trial);
  const std::vector<double>& gradient = normal(2e-3, 4);
  const BucketNumbers expected = update_with_norm(trial, before, gradient);
  const BucketNumbers corrected = update_and_correct(trial, before, gradient);
  CHECK(distance(before.weights, expected.weights) > 0);
  CHECK(distance(expected.weights, corrected.weights) <= 1e-15);
  CHECK(distance(expected.first, corrected.first) == 0);
  CHECK(distance(expected.second, corrected.second) == 0);
}

}  // namespace trainyard::correction_test
