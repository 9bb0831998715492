// Samples of families that give every pixel of an image a class.
//
// `data: {path: generated}`: an image is a grid of at most 4 x 4 cells, each of a class drawn
// uniformly of K. A class is a pattern of its own over the channels, 1 or -1 in each; every element
// is off by at most a half, uniformly, so that its sign tells the pattern. The label of a pixel is
// the class of its cell with probability 1 - e, e = 0.1, else any other class, uniformly. Hence,
// exactly,
//     best loss = -(1 - e) ln(1 - e) - e ln(e / (K - 1)) nats per pixel.
// `synthetic`: noise, and labels by chance: the best loss is ln K.
#pragma once

#include "engine/base/indexed.h"
#include "real/data/samples.h"

namespace trainyard {

class PixelSamples final : public Samples {
 public:
  /// Throws ConfigError where channels are too few to tell classes apart.
  explicit PixelSamples(const Study& study);

  void fill(std::string_view name, std::int64_t index, std::span<std::int64_t> out) const override;
  void fill_numbers(std::string_view name, std::int64_t index, std::span<float> out) const override;
  std::int64_t predicted_per_sample() const override { return image_size_ * image_size_; }
  std::optional<double> best_loss() const override;
  std::string loss_unit() const override { return "nats a pixel"; }
  std::string description() const override;

 private:
  /// The class of each cell of image `index`, row by row.
  Numbered<std::int64_t> cells(std::int64_t index) const;
  std::int64_t cell_of(std::int64_t row, std::int64_t column) const {
    return row * along_ / image_size_ * along_ + column * along_ / image_size_;
  }

  std::int64_t seed_;
  std::int64_t image_size_;
  std::int64_t channels_;
  std::int64_t classes_;
  std::int64_t along_;  // cells of an image, along each dim
  bool learnable_;      // generated, not synthetic
};

}  // namespace trainyard
