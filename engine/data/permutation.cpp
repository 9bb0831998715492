#include "engine/data/permutation.h"

#include <algorithm>
#include <bit>

#include "engine/base/error.h"
#include "engine/data/draws.h"

namespace trainyard {

namespace {

// Four rounds of a random f are indistinguishable from a random permutation (Luby and Rackoff
// 1988); halves of few bits need some more.
constexpr std::uint32_t kRounds = 8;
constexpr int kLeastHalfBits = 3;

}  // namespace

KeyedPermutation::KeyedPermutation(std::int64_t size, std::int64_t seed, std::int64_t epoch)
    : size_(static_cast<std::uint64_t>(size)),
      key_(philox_key(seed)),
      epoch_(static_cast<std::uint32_t>(epoch)) {
  check(size >= 1 && size <= std::int64_t{1} << 62, "a permutation has 1 to 2^62 values");
  half_bits_ = std::max(kLeastHalfBits, (static_cast<int>(std::bit_width(size_ - 1)) + 1) / 2);
}

std::int64_t KeyedPermutation::operator()(std::int64_t place) const {
  auto value = static_cast<std::uint64_t>(place);
  check(value < size_, "a place of the permutation");
  do {
    value = permute(value);
  } while (value >= size_);
  return static_cast<std::int64_t>(value);
}

std::uint64_t KeyedPermutation::permute(std::uint64_t value) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  auto left = static_cast<std::uint32_t>(value >> half_bits_);
  auto right = static_cast<std::uint32_t>(value & mask);
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    const auto purpose = static_cast<std::uint32_t>(DrawPurpose::kShuffle);
    const std::uint32_t f = philox({right, round, epoch_, purpose}, key_)[0];
    const std::uint32_t next = left ^ (f & static_cast<std::uint32_t>(mask));
    left = right;
    right = next;
  }
  return std::uint64_t{left} << half_bits_ | right;
}

}  // namespace trainyard
