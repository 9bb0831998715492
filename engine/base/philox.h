// Philox4x32-10, a counter-based random generator: the n-th draw is a pure function of (counter,
// key), so whoever needs a draw computes it, on any rank and in any order, and there is no state to
// save. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11, section 4.
//
// Users keep their draws apart by giving each purpose words of the counter or key of its own.
#pragma once

#include <array>
#include <cstdint>

namespace trainyard {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

/// Four 32-bit words, each uniform over all values: ten rounds of multiply and exchange. For a
/// fixed key a bijection of the counter.
constexpr PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t even = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t odd = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(odd >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(odd),
               static_cast<std::uint32_t>(even >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(even)};
    key[0] += 0x9E3779B9;  // the golden ratio's and sqrt(3)'s fractions: a Weyl sequence of keys
    key[1] += 0xBB67AE85;
  }
  return counter;
}

}  // namespace trainyard
