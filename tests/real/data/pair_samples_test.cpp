// Generated users and items: the best loss as derived, and that a perfect model, which knows the
// kinds, reaches it.
#include "real/data/pair_samples.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/real/data/data_studies.h"

namespace trainyard::pair_samples_test {

namespace {

Study pairs(const std::string& path, std::int64_t users, std::int64_t items) {
  Study study = study_of(Family::kNcf, path, 0, 1);
  study.model.users = users, study.model.items = items;
  return study;
}

std::int64_t number(const Samples& samples, const char* name, std::int64_t index) {
  return input(samples, name, index, 1).front();
}

float label(const Samples& samples, std::int64_t index) {
  float out = -1;
  samples.fill_numbers("labels", index, {&out, 1});
  return out;
}

}  // namespace

TEST_CASE("of generated pairs a perfect model has the loss that is said to be the best") {
  constexpr std::int64_t kUsers = 11, kItems = 6;
  constexpr int kSamples = 8000;
  const PairSamples samples(pairs("generated", kUsers, kItems));
  CHECK(samples.predicted_per_sample() == 1);
  // -(0.9 ln 0.9 + 0.1 ln 0.1) = 0.0948 + 0.2303.
  CHECK(samples.best_loss().value() == Approx(0.325083).epsilon(1e-5));
  double loss = 0;
  int alike = 0;
  for (std::int64_t index = 0; index < kSamples; ++index) {
    const std::int64_t user = number(samples, "users", index);
    const std::int64_t item = number(samples, "items", index);
    REQUIRE((user >= 0 && user < kUsers));
    REQUIRE((item >= 0 && item < kItems));
    const bool takes = user % 4 == item % 4;
    alike += takes ? 1 : 0;
    const float of_pair = label(samples, index);
    REQUIRE((of_pair == 0 || of_pair == 1));
    loss -= std::log((of_pair == 1) == takes ? 0.9 : 0.1);
  }
  CHECK(alike / double{kSamples} == Approx(0.5).margin(0.028));  // 5 deviations of 0.0056
  // The deviation of the mean: 0.3 ln(9) / sqrt(8000) = 0.0074.
  CHECK(loss / kSamples == Approx(*samples.best_loss()).margin(0.037));
}

TEST_CASE("pairs are functions of the study and their number") {
  Study study = pairs("generated", 1000, 1000);
  const PairSamples samples(study), others(study);
  study.training.seed = 2;
  const PairSamples elsewhere(study);
  int same = 0;
  for (std::int64_t index = 0; index < 50; ++index) {
    CHECK(number(others, "users", index) == number(samples, "users", index));
    CHECK(number(others, "items", index) == number(samples, "items", index));
    CHECK(label(others, index) == label(samples, index));
    same += number(elsewhere, "users", index) == number(samples, "users", index) ? 1 : 0;
  }
  CHECK(same < 3);  // by chance one in a thousand
}

TEST_CASE("synthetic pairs are noise") {
  const PairSamples samples(pairs("synthetic", 3, 2));
  CHECK(samples.best_loss().value() == Approx(std::log(2)));
  int ones = 0;
  for (std::int64_t index = 0; index < 1000; ++index) ones += label(samples, index) == 1 ? 1 : 0;
  CHECK(ones == Approx(500).margin(79));  // 5 deviations of 15.8
}

TEST_CASE("pairs that cannot be made are refused") {
  const auto error = [](const Study& study) { return config_error([&] { PairSamples{study}; }); };
  CHECK(
      error(pairs("generated", 3, 9)) ==
      "study.yaml: model.users: generated users are of 4 kinds; expected at least as many, got 3");
  CHECK(
      error(pairs("generated", 9, 2)) ==
      "study.yaml: model.items: generated items are of 4 kinds; expected at least as many, got 2");
}

}  // namespace trainyard::pair_samples_test
