#include "real/data/image_samples.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "engine/base/error.h"
#include "real/data/draws.h"
#include "real/data/noisy_labels.h"
#include "study/study_origin.h"

namespace trainyard {

namespace {

constexpr std::int64_t kMostCells = 4;    // of a pattern, along each dim
constexpr std::int64_t kPatternSeed = 0;  // patterns belong to the classes, not to the run

}  // namespace

ImageSamples::ImageSamples(const Study& study)
    : seed_(study.training.seed),
      image_size_(study.model.image_size),
      channels_(study.model.channels),
      classes_(study.model.classes),
      cells_(std::min(kMostCells, study.model.image_size)),
      learnable_(study.data.path == "generated") {
  if (learnable_) draw_patterns(study);
}

void ImageSamples::draw_patterns(const Study& study) {
  if (classes_ < 2) fail_at(study, "model.classes", "generated images have at least 2 classes");
  std::set<std::vector<bool>> seen;
  for (std::int64_t of_class = 0; of_class < classes_; ++of_class) {
    Draws draws(kPatternSeed, DrawPurpose::kPatterns, of_class);
    std::vector<bool> pattern;
    for (std::int64_t cell = 0; cell < channels_ * cells_ * cells_; ++cell)
      pattern.push_back(draws.below(2) == 1);
    if (!seen.insert(pattern).second)
      fail_at(study, "model.classes",
              std::to_string(classes_) +
                  " classes have not all a pattern of their own in images of " +
                  std::to_string(channels_) + " x " + std::to_string(cells_) + " x " +
                  std::to_string(cells_) + " cells");
    patterns_.push_back(std::move(pattern));
  }
}

void ImageSamples::fill(std::string_view name, std::int64_t index,
                        std::span<std::int64_t> out) const {
  if (name == "positions" || name == "class_tokens")
    return std::iota(out.begin(), out.end(), std::int64_t{0});
  if (name != "labels") bug("a model of images has no input " + std::string(name));
  Draws draws(seed_, DrawPurpose::kClasses, index);
  const std::int64_t shown = draws.below(classes_);
  out[0] = learnable_ ? noisy_label(shown, classes_, draws) : shown;
}

void ImageSamples::fill_numbers(std::string_view name, std::int64_t index,
                                std::span<float> out) const {
  if (name != "images") bug("a model of images has no input " + std::string(name));
  Draws draws(seed_, DrawPurpose::kImages, index);
  if (!learnable_) {
    for (float& element : out) element = static_cast<float>(2 * draws.uniform() - 1);
    return;
  }
  const std::int64_t shown = Draws(seed_, DrawPurpose::kClasses, index).below(classes_);
  const std::vector<bool>& pattern = patterns_[static_cast<std::size_t>(shown)];
  auto element = out.begin();
  for (std::int64_t channel = 0; channel < channels_; ++channel) {
    for (std::int64_t row = 0; row < image_size_; ++row) {
      const std::int64_t cell_row = channel * cells_ + row * cells_ / image_size_;
      for (std::int64_t column = 0; column < image_size_; ++column) {
        const std::int64_t cell = cell_row * cells_ + column * cells_ / image_size_;
        const double center = pattern[static_cast<std::size_t>(cell)] ? 1 : -1;
        *element++ = static_cast<float>(center + draws.uniform() - 0.5);
      }
    }
  }
}

std::optional<double> ImageSamples::best_loss() const {
  return learnable_ ? least_noisy_loss(classes_) : std::log(static_cast<double>(classes_));
}

std::string ImageSamples::description() const {
  const std::string what = learnable_ ? "generated: patterns of " : "synthetic: noise, ";
  return what + std::to_string(classes_) + " classes in images of " + std::to_string(channels_) +
         " x " + std::to_string(image_size_) + " x " + std::to_string(image_size_);
}

}  // namespace trainyard
