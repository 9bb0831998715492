// Generated images whose pixels have classes: the best loss as derived, and that a perfect model,
// which reads each pixel's class off its signs, reaches it.
#include "real/data/pixel_samples.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "tests/real/data/data_studies.h"

namespace trainyard::pixel_samples_test {

namespace {

constexpr std::int64_t kChannels = 3;

Study pixels(const std::string& path, std::int64_t size, std::int64_t classes) {
  Study study = study_of(Family::kUnet, path, 0, 1);
  study.model.image_size = size;
  study.model.channels = kChannels;
  study.model.classes = classes;
  return study;
}

std::vector<float> image(const Samples& samples, std::int64_t size, std::int64_t index) {
  std::vector<float> out(static_cast<std::size_t>(kChannels * size * size));
  samples.fill_numbers("images", index, out);
  return out;
}

/// Signs over the channels as a binary number, the first the lowest.
std::int64_t class_shown(const std::vector<float>& image, std::int64_t pixels, std::int64_t at) {
  std::int64_t out = 0;
  for (std::int64_t channel = 0; channel < kChannels; ++channel) {
    if (image.begin()[channel * pixels + at] > 0) out += std::int64_t{1} << channel;
  }
  return out;
}

}  // namespace

TEST_CASE("of generated pixels a perfect model has the loss that is said to be the best") {
  constexpr std::int64_t kSize = 10, kClasses = 7, kPixels = kSize * kSize, kSamples = 100;
  const PixelSamples samples(pixels("generated", kSize, kClasses));
  CHECK(samples.predicted_per_sample() == kPixels);
  // -(0.9 ln 0.9 + 0.1 ln(0.1 / 6)) = 0.0948 + 0.4094.
  CHECK(samples.best_loss().value() == Approx(0.504259).epsilon(1e-5));
  double loss = 0;
  std::vector<int> shown(kClasses, 0);
  for (std::int64_t index = 0; index < kSamples; ++index) {
    const std::vector<float> elements = image(samples, kSize, index);
    const auto labels = input(samples, "labels", index, kPixels);
    for (std::int64_t at = 0; at < kPixels; ++at) {
      const std::int64_t of_pixel = class_shown(elements, kPixels, at);
      REQUIRE(of_pixel < kClasses);
      ++shown.begin()[of_pixel];
      loss -= std::log(labels.begin()[at] == of_pixel ? 0.9 : 0.1 / 6);
    }
  }
  // 1600 cells of 6 or so pixels: a share of 1/7 deviates by sqrt(6/49 / 1600) = 0.0087 of all.
  for (const int count : shown)
    CHECK(count / static_cast<double>(kSamples * kPixels) == Approx(1 / 7.0).margin(0.044));
  // The deviation of the mean: 0.3 ln(54) / sqrt(10000) = 0.012.
  CHECK(loss / (kSamples * kPixels) == Approx(*samples.best_loss()).margin(0.06));
}

TEST_CASE("pixels are functions of the study and their number") {
  const Study study = pixels("generated", 9, 8);
  const PixelSamples samples(study), others(study);
  const auto ninth = image(samples, 9, 9);
  for (std::int64_t index = 0; index < 9; ++index) CHECK(image(samples, 9, index) != ninth);
  CHECK(image(others, 9, 9) == ninth);
  CHECK(input(others, "labels", 9, 81) == input(samples, "labels", 9, 81));
  for (const float element : ninth) CHECK((std::abs(element) >= 0.5 && std::abs(element) <= 1.5));
}

TEST_CASE("synthetic pixels are noise") {
  const PixelSamples samples(pixels("synthetic", 8, 10));
  CHECK(samples.best_loss().value() == Approx(std::log(10)));
  for (const float element : image(samples, 8, 3)) CHECK(std::abs(element) <= 1);
}

TEST_CASE("pixels that cannot be made are refused") {
  const auto error = [](const Study& study) { return config_error([&] { PixelSamples{study}; }); };
  CHECK(error(pixels("generated", 8, 1)) ==
        "study.yaml: model.classes: generated pixels have at least 2 classes");
  CHECK(error(pixels("generated", 8, 9)) ==
        "study.yaml: model.classes: 3 channels tell generated pixels of at most 8 classes apart, "
        "got 9");
}

}  // namespace trainyard::pixel_samples_test
