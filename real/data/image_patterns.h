// What generated images show: each of K classes has a pattern of its own, a grid of at most 4 x 4
// cells in each channel, each 1 or -1 by chance. An image is the pattern of a class, every element
// off by at most a half, uniformly: signs alone tell the pattern, so that a perfect model knows it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/indexed.h"
#include "engine/data/draws.h"

namespace trainyard {

class ImagePatterns {
 public:
  ImagePatterns(std::int64_t channels, std::int64_t image_size);

  /// Gives each of `classes` a pattern; false: images are too small to tell so many apart.
  bool draw(std::int64_t classes);
  /// "3 x 4 x 4 cells".
  std::string cells() const;
  /// An image of a class; `draws` say how far its elements are off.
  void fill(std::int64_t of_class, Draws draws, std::span<float> out) const;

 private:
  std::int64_t channels_;
  std::int64_t image_size_;
  std::int64_t cells_;                 // of a pattern, along each dim of an image
  Numbered<Numbered<bool>> patterns_;  // [class][channel, row, column]: 1, not -1
};

}  // namespace trainyard
