#include "real/data/image_patterns.h"

#include <algorithm>
#include <set>

namespace trainyard {

namespace {

constexpr std::int64_t kMostCellsAlong = 4;  // of a pattern, along each dim
constexpr std::int64_t kPatternSeed = 0;     // patterns belong to the classes, not to the run

}  // namespace

ImagePatterns::ImagePatterns(std::int64_t channels, std::int64_t image_size)
    : channels_(channels),
      image_size_(image_size),
      cells_(std::min(kMostCellsAlong, image_size)) {}

bool ImagePatterns::draw(std::int64_t classes) {
  std::set<Numbered<bool>> seen;
  for (std::int64_t of_class = 0; of_class < classes; ++of_class) {
    Draws draws(kPatternSeed, DrawPurpose::kPatterns, of_class);
    Numbered<bool> pattern;
    for (std::int64_t cell = 0; cell < channels_ * cells_ * cells_; ++cell)
      pattern.push_back(draws.below(2) == 1);
    if (!seen.insert(pattern).second) return false;
    patterns_.push_back(std::move(pattern));
  }
  return true;
}

std::string ImagePatterns::cells() const {
  return std::to_string(channels_) + " x " + std::to_string(cells_) + " x " +
         std::to_string(cells_) + " cells";
}

void ImagePatterns::fill(std::int64_t of_class, Draws draws, std::span<float> out) const {
  const Numbered<bool>& pattern = patterns_[of_class];
  auto element = out.begin();
  for (std::int64_t channel = 0; channel < channels_; ++channel) {
    for (std::int64_t row = 0; row < image_size_; ++row) {
      const std::int64_t cell_row = channel * cells_ + row * cells_ / image_size_;
      for (std::int64_t column = 0; column < image_size_; ++column) {
        const std::int64_t cell = cell_row * cells_ + column * cells_ / image_size_;
        const double center = pattern[cell] ? 1 : -1;
        *element++ = static_cast<float>(center + draws.uniform() - 0.5);
      }
    }
  }
}

}  // namespace trainyard
