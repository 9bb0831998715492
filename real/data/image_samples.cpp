#include "real/data/image_samples.h"

#include <cmath>
#include <numeric>

#include "engine/base/error.h"
#include "engine/data/draws.h"
#include "real/data/noisy_labels.h"
#include "study/study_origin.h"

namespace trainyard {

ImageSamples::ImageSamples(const Study& study)
    : seed_(study.training.seed),
      image_size_(study.model.image_size),
      channels_(study.model.channels),
      classes_(study.model.classes),
      learnable_(study.data.path == "generated"),
      patterns_(channels_, image_size_) {
  if (!learnable_) return;
  if (classes_ < 2) fail_at(study, "model.classes", "generated images have at least 2 classes");
  if (!patterns_.draw(classes_))
    fail_at(study, "model.classes",
            std::to_string(classes_) +
                " classes have not all a pattern of their own in images of " + patterns_.cells());
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
  if (learnable_)
    return patterns_.fill(Draws(seed_, DrawPurpose::kClasses, index).below(classes_), draws, out);
  for (float& element : out) element = static_cast<float>(2 * draws.uniform() - 1);
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
