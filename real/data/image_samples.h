// Samples of families that classify images.
//
// `data: {path: generated}`: an endless set of images of our own making whose labels have a known
// entropy. An image shows the pattern of one of K classes, drawn uniformly (image_patterns.h); the
// label is that class with probability 1 - e, e = 0.1, else any other class, uniformly. Hence,
// exactly,
//     best loss = -(1 - e) ln(1 - e) - e ln(e / (K - 1)) nats.
// `synthetic`: noise, and labels by chance: the best loss is ln K.
#pragma once

#include "real/data/image_patterns.h"
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
  std::int64_t seed_;
  std::int64_t image_size_;
  std::int64_t channels_;
  std::int64_t classes_;
  bool learnable_;  // generated, not synthetic
  ImagePatterns patterns_;
};

}  // namespace trainyard
