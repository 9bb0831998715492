// Generated images and their texts: the best loss as derived, and that a perfect model, which knows
// the classes, reaches it.
#include "real/data/caption_samples.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/real/data/data_studies.h"

namespace trainyard::caption_samples_test {

namespace {

constexpr std::int64_t kSize = 6, kLength = 5;

Study captions(const std::string& path, std::int64_t vocab, std::int64_t group) {
  Study study = study_of(Family::kClip, path, vocab, kLength);
  study.model.image_size = kSize, study.model.channels = 3, study.model.contrast = group;
  return study;
}

std::string signs(const Samples& samples, std::int64_t index) {
  std::vector<float> image(3 * kSize * kSize);
  samples.fill_numbers("images", index, image);
  std::string out;
  for (const float element : image) out += element > 0 ? '+' : '-';
  return out;
}

}  // namespace

TEST_CASE("of generated captions a perfect model has the loss that is said to be the best") {
  // 4 classes: ids 0 to 3 name them, 4 to 7 say nothing, 8 ends a text. Of 2 others none, one or
  // both have a sample's class: 9/16, 6/16, 1/16 of ln 1, ln 2, ln 3.
  constexpr std::int64_t kGroup = 3, kSamples = 6000;
  const CaptionSamples samples(captions("generated", 9, kGroup));
  CHECK(samples.best_loss().value() == Approx((6 * std::log(2) + std::log(3)) / 16).epsilon(1e-12));
  std::vector<std::int64_t> classes;
  std::map<std::string, std::int64_t> shown;  // by pattern
  for (std::int64_t index = 0; index < kSamples; ++index) {
    const Tokens text = input(samples, "tokens", index, kLength);
    REQUIRE(text.back() == 8);
    const auto is_name = [](std::int64_t token) { return token < 4; };
    REQUIRE(std::count_if(text.begin(), text.end(), is_name) == 1);
    classes.push_back(*std::find_if(text.begin(), text.end(), is_name));
    const auto [known, fresh] = shown.try_emplace(signs(samples, index), classes.back());
    REQUIRE(known->second == classes.back());
    CHECK(input(samples, "labels", index, 2) == Tokens{index % kGroup, index % kGroup});
  }
  CHECK(shown.size() == 4);
  double loss = 0;
  for (auto group = classes.begin(); group != classes.end(); group += kGroup) {
    for (auto one = group; one != group + kGroup; ++one)
      loss += std::log(std::count(group, group + kGroup, *one));
  }
  // A sample's loss deviates by less than ln(3) / 2, and the 2000 groups are independent.
  CHECK(loss / kSamples == Approx(*samples.best_loss()).margin(5 * 0.55 / std::sqrt(2000)));
}

TEST_CASE("captions are functions of the study and their number") {
  const Study study = captions("generated", 100, 2);
  const CaptionSamples samples(study), others(study);
  CHECK(signs(others, 9) == signs(samples, 9));
  CHECK(input(others, "tokens", 9, kLength) == input(samples, "tokens", 9, kLength));
  CHECK(input(samples, "tokens", 8, kLength) != input(samples, "tokens", 9, kLength));
  CHECK(input(samples, "image_positions", 9, 3) == Tokens{0, 1, 2});
  CHECK(input(samples, "class_tokens", 9, 1) == Tokens{0});
}

TEST_CASE("synthetic captions are noise") {
  const CaptionSamples samples(captions("synthetic", 9, 5));
  CHECK(samples.best_loss().value() == Approx(std::log(5)));
  CHECK(input(samples, "tokens", 3, kLength).back() == 8);
}

TEST_CASE("captions that cannot be made are refused") {
  const auto error = [](const Study& study) {
    return config_error([&] { CaptionSamples{study}; });
  };
  CHECK(error(captions("generated", 4, 2)) ==
        "study.yaml: model.vocab: 2 names of classes, 2 other words and the end of a text are 5 "
        "ids, got 4");
  Study study = captions("generated", 9, 2);
  study.model.seq_len = 1;
  CHECK(error(study) ==
        "study.yaml: model.seq_len: a text names a class before it ends; expected at least 2 "
        "tokens, got 1");
  study = captions("generated", 200, 2);
  study.model.image_size = 1;
  CHECK(error(study) ==
        "study.yaml: model.image_size: 64 classes have not all a pattern of their own in images of "
        "3 x 1 x 1 cells");
}

}  // namespace trainyard::caption_samples_test
