// The random draws of one sample for one purpose: a short stream that begins anew for every (seed,
// purpose, index), so that no draw depends on which samples were made before, or where.
#pragma once

#include <cstdint>

#include "engine/base/philox.h"

namespace trainyard {

/// What draws are for; the last word of the Philox counter. The upper half says that they are the
/// data's, so that weights and dropout, under the same seed, draw other numbers.
enum class DrawPurpose : std::uint32_t {
  kSyntheticTokens = 0xDA7A0001,
  kLanguage,  // the generated text's grammar; its seed is a constant
  kGeneratedText,
  kOtherText,  // what is generated where a sample needs a second, unrelated text
  kShuffle,
  kMasking,
  kSpans,
  kNextSentence,
  kPatterns,  // the generated images' patterns; their seed is a constant
  kImages,
  kClasses,
  kLabels,
  kPixels,
  kPairs,
  kCaptions,
};

inline PhiloxKey philox_key(std::int64_t seed) {
  const auto bits = static_cast<std::uint64_t>(seed);
  return {static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32)};
}

/// One stream of draws. Copying copies the place in the stream.
class Draws {
 public:
  Draws(std::int64_t seed, DrawPurpose purpose, std::int64_t index)
      : key_(philox_key(seed)),
        counter_{0, static_cast<std::uint32_t>(static_cast<std::uint64_t>(index)),
                 static_cast<std::uint32_t>(static_cast<std::uint64_t>(index) >> 32),
                 static_cast<std::uint32_t>(purpose)} {}

  /// 64 uniform bits. A stream has 2^33 of these.
  std::uint64_t bits() {
    if (left_ == 0) {
      const PhiloxCounter words = philox(counter_, key_);
      ++counter_[0];
      pair_[1] = words[0] | std::uint64_t{words[1]} << 32;  // taken first
      pair_[0] = words[2] | std::uint64_t{words[3]} << 32;
      left_ = 2;
    }
    return pair_[--left_];
  }

  /// Uniform in [0, n), n >= 1; no value is more than n / 2^64 (relative) likelier than another.
  std::int64_t below(std::int64_t n) {
    // The upper half of the 128-bit product (Lemire 2019, arXiv:1805.10941, without rejection).
    const auto range = static_cast<unsigned __int128>(n);
    return static_cast<std::int64_t>((bits() * range) >> 64);
  }

  /// Uniform over the multiples of 2^-53 in [0, 1).
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }

 private:
  PhiloxKey key_;
  PhiloxCounter counter_;  // block in the stream, index (two words), purpose
  std::uint64_t pair_[2] = {};
  int left_ = 0;  // of pair_, not yet taken
};

}  // namespace trainyard
