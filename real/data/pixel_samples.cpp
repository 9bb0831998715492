#include "real/data/pixel_samples.h"

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/data/draws.h"
#include "real/data/noisy_labels.h"
#include "study/study_origin.h"

namespace trainyard {

namespace {

constexpr std::int64_t kMostPixelCells = 4;  // of an image, along each dim

/// Whether the pattern of a class is 1 in a channel: the class as a number of so many bits.
bool is_up(std::int64_t of_class, std::int64_t channel) {
  return channel < 62 && (of_class >> channel & 1) == 1;
}

}  // namespace

PixelSamples::PixelSamples(const Study& study)
    : seed_(study.training.seed),
      image_size_(study.model.image_size),
      channels_(study.model.channels),
      classes_(study.model.classes),
      along_(std::min(kMostPixelCells, study.model.image_size)),
      learnable_(study.data.path == "generated") {
  if (!learnable_) return;
  if (classes_ < 2) fail_at(study, "model.classes", "generated pixels have at least 2 classes");
  const std::int64_t most = std::int64_t{1} << std::min<std::int64_t>(channels_, 62);
  if (classes_ > most)
    fail_at(study, "model.classes",
            std::to_string(channels_) + " channels tell generated pixels of at most " +
                std::to_string(most) + " classes apart, got " + std::to_string(classes_));
}

Numbered<std::int64_t> PixelSamples::cells(std::int64_t index) const {
  Draws draws(seed_, DrawPurpose::kClasses, index);
  Numbered<std::int64_t> out(along_ * along_);
  for (std::int64_t& of_class : out) of_class = draws.below(classes_);
  return out;
}

void PixelSamples::fill(std::string_view name, std::int64_t index,
                        std::span<std::int64_t> out) const {
  if (name != "labels") bug("a model of pixels has no input " + std::string(name));
  Draws draws(seed_, DrawPurpose::kPixels, index);
  const Numbered<std::int64_t> shown = cells(index);
  auto label = out.begin();
  for (std::int64_t row = 0; row < image_size_; ++row) {
    for (std::int64_t column = 0; column < image_size_; ++column) {
      *label++ = learnable_ ? noisy_label(shown[cell_of(row, column)], classes_, draws)
                            : draws.below(classes_);
    }
  }
}

void PixelSamples::fill_numbers(std::string_view name, std::int64_t index,
                                std::span<float> out) const {
  if (name != "images") bug("a model of pixels has no input " + std::string(name));
  Draws draws(seed_, DrawPurpose::kImages, index);
  const Numbered<std::int64_t> shown = cells(index);
  auto element = out.begin();
  for (std::int64_t channel = 0; channel < channels_; ++channel) {
    for (std::int64_t row = 0; row < image_size_; ++row) {
      for (std::int64_t column = 0; column < image_size_; ++column) {
        const double off = draws.uniform() - 0.5;
        const double center = is_up(shown[cell_of(row, column)], channel) ? 1 : -1;
        *element++ = static_cast<float>(learnable_ ? center + off : 2 * off);
      }
    }
  }
}

std::optional<double> PixelSamples::best_loss() const {
  return learnable_ ? least_noisy_loss(classes_) : std::log(static_cast<double>(classes_));
}

std::string PixelSamples::description() const {
  const std::string what = learnable_ ? "generated: cells of " : "synthetic: noise, pixels of ";
  return what + std::to_string(classes_) + " classes in images of " + std::to_string(channels_) +
         " x " + std::to_string(image_size_) + " x " + std::to_string(image_size_);
}

}  // namespace trainyard
