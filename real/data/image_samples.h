// Samples of families that classify images.
//
// `data: {path: generated}`: an endless set of images of our own making whose labels have a known
// entropy. Each of K classes has a pattern: a grid of at most 4 x 4 cells in each channel, each 1
// or -1 by chance. An image is the pattern of a class drawn uniformly, every element off by at most
// a half, uniformly: signs alone tell the pattern, so that a perfect model knows it. The label is
// the pattern's class with probability 1 - e, e = 0.1, else any other class, uniformly. Hence,
// exactly,
//     best loss = -(1 - e) ln(1 - e) - e ln(e / (K - 1)) nats.
// `synthetic`: noise, and labels by chance: the best loss is ln K.
#pragma once

#include <vector>

#include "real/data/samples.h"

namespace trainyard {

class ImageSamples final : public Samples {
 public:
  /// Throws ConfigError where images are too small to tell the classes apart.
  explicit ImageSamples(const Study& study);

  void fill(std::string_view name, std::int64_t index, std::span<std::int64_t> out) const override;
  void fill_numbers(std::string_view name, std::int64_t index, std::span<float> out) const override;
  std::int64_t predicted_per_sample() const override { return 1; }
  std::optional<double> best_loss() const override;
  std::string description() const override;

 private:
  void draw_patterns(const Study& study);

  std::int64_t seed_;
  std::int64_t image_size_;
  std::int64_t channels_;
  std::int64_t classes_;
  std::int64_t cells_;                       // of a pattern, along each dim of an image
  bool learnable_;                           // generated, not synthetic
  std::vector<std::vector<bool>> patterns_;  // [class][channel, row, column]: 1, not -1
};

}  // namespace trainyard
