// A random permutation of 0 .. n-1 that is computed, not stored: which sample stands at a place of
// an epoch is answered at once, however many samples there are, and there is no state to save.
#pragma once

#include <cstdint>

#include "engine/base/philox.h"

namespace trainyard {

/// The permutation of [0, size) that belongs to (seed, epoch).
///
/// A Feistel network over 2h bits, the fewest with 2^(2h) >= size (at least 6), permutes the larger
/// domain: (left, right) -> (right, left ^ f(right)) is invertible whatever f is. Results outside
/// [0, size) go through again until one lies inside (cycle walking, Black and Rogaway 2002), which
/// follows the cycles of the larger permutation and so is a bijection of [0, size). Above 64 values
/// the larger domain has less than 4 times the size, so that on average fewer than 4 passes are
/// made.
class KeyedPermutation {
 public:
  /// 1 <= size <= 2^62.
  KeyedPermutation(std::int64_t size, std::int64_t seed, std::int64_t epoch);

  std::int64_t operator()(std::int64_t place) const;  // 0 <= place < size

 private:
  std::uint64_t permute(std::uint64_t value) const;

  std::uint64_t size_;
  PhiloxKey key_;
  std::uint32_t epoch_;
  int half_bits_;  // h
};

}  // namespace trainyard
