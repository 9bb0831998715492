// Generated images: the best loss as derived, and that a perfect model, which reads the pattern off
// the signs, reaches it.
#include "real/data/image_samples.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <vector>

#include "tests/real/data/data_studies.h"

namespace trainyard::image_samples_test {

namespace {

Study images(const std::string& path, std::int64_t size, std::int64_t classes) {
  Study study = study_of(Family::kResnet, path, 0, 1);
  study.model.image_size = size;
  study.model.channels = 3;
  study.model.classes = classes;
  return study;
}

std::vector<float> image(const Samples& samples, const Study& study, std::int64_t index) {
  const std::int64_t elements = 3 * study.model.image_size * study.model.image_size;
  std::vector<float> out(static_cast<std::size_t>(elements));
  samples.fill_numbers("images", index, out);
  return out;
}

std::string signs(const std::vector<float>& image) {
  std::string out;
  for (const float element : image) out += element > 0 ? '+' : '-';
  return out;
}

}  // namespace

TEST_CASE("of generated images a perfect model has the loss that is said to be the best") {
  const Study study = images("generated", 10, 7);
  const ImageSamples samples(study);
  // -(0.9 ln 0.9 + 0.1 ln(0.1 / 6)) = 0.0948 + 0.4094.
  CHECK(samples.best_loss().value() == Approx(0.504259).epsilon(1e-5));
  constexpr int kSamples = 7000;
  std::map<std::string, std::map<std::int64_t, int>> labels;  // by pattern
  for (std::int64_t index = 0; index < kSamples; ++index)
    ++labels[signs(image(samples, study, index))][input(samples, "labels", index, 1)[0]];
  REQUIRE(labels.size() == 7);
  double loss = 0;
  for (const auto& [pattern, counts] : labels) {
    int all = 0, most = 0;
    for (const auto& [label, count] : counts) all += count, most = std::max(most, count);
    CHECK(all == Approx(kSamples / 7.0).epsilon(0.15));  // 5 deviations of 29
    loss -= most * std::log(0.9) + (all - most) * std::log(0.1 / 6);
  }
  // The deviation of the mean: 0.3 ln(54) / sqrt(7000) = 0.0143.
  CHECK(loss / kSamples == Approx(*samples.best_loss()).margin(0.06));
}

TEST_CASE("images are functions of the study and their number") {
  const Study study = images("generated", 9, 10);
  const ImageSamples samples(study), others(study);
  const auto ninth = image(samples, study, 9);
  for (std::int64_t index = 0; index < 9; ++index) CHECK(image(samples, study, index) != ninth);
  CHECK(image(others, study, 9) == ninth);
  for (const float element : ninth) CHECK((std::abs(element) >= 0.5 && std::abs(element) <= 1.5));
}

TEST_CASE("synthetic images are noise") {
  const Study study = images("synthetic", 8, 10);
  const ImageSamples samples(study);
  CHECK(samples.best_loss().value() == Approx(std::log(10)));
  for (const float element : image(samples, study, 3)) CHECK(std::abs(element) <= 1);
}

TEST_CASE("images that cannot be made are refused") {
  const auto error = [](const Study& study) { return config_error([&] { ImageSamples{study}; }); };
  CHECK(error(images("generated", 8, 1)) ==
        "study.yaml: model.classes: generated images have at least 2 classes");
  Study small = images("generated", 1, 10);  // 8 patterns of 3 cells
  CHECK(
      error(small) ==
      "study.yaml: model.classes: 10 classes have not all a pattern of their own in images of 3 x "
      "1 x 1 cells");
}

}  // namespace trainyard::image_samples_test
