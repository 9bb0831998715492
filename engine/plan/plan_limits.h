// The contract's limits on a study, so that no product of its numbers overflows further on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace trainyard {

inline constexpr int kMaxRanks = 1 << 20;
inline constexpr std::int64_t kMaxLayers = 100'000;
inline constexpr std::int64_t kMaxMicrobatches = 100'000;
inline constexpr std::int64_t kMaxTensorElements = std::int64_t{1} << 40;
inline constexpr std::int64_t kMaxModelNumber = (std::int64_t{1} << 31) - 1;  // hidden, vocab, ...
inline constexpr std::int64_t kMaxVocab = kMaxModelNumber - kMaxRanks;        // room to pad it
inline constexpr std::int64_t kMaxBatch = std::int64_t{1} << 40;              // sequences
inline constexpr std::int64_t kMaxMicrobatch = (std::int64_t{1} << 31) - 1;   // sequences

// Not the contract's: beyond them a number is a slip of the hand. "Below": exclusive.
inline constexpr std::int64_t kMostPlannedBlocks = 1'000;  // partition.blocks
inline constexpr std::size_t kMaxTensorAxes = 4;           // parallel.tensor: {tp0: 2, tp1: 4}
inline constexpr std::int64_t kMaxSteps = std::int64_t{1} << 40;
inline constexpr std::int64_t kMaxNodesPerLeaf = 1'000'000'000;
inline constexpr std::int64_t kMaxBufferBytes = std::int64_t{1} << 50;  // parallel.d2d_buffer
inline constexpr double kMostPrice = 1e6;                               // cluster.price
inline constexpr double kFastestFactor = 1000;                          // cluster.speed
inline constexpr double kOversubscriptionBelow = 1e6;
inline constexpr double kRateBelow = 1e6;  // lr, weight_decay
inline constexpr double kNormEpsBelow = 1;
inline constexpr double kLeastRotaryBase = 1;
inline constexpr double kRotaryBaseBelow = 1e12;
inline constexpr double kDecoderNumberBelow = 1e6;  // caps, query_scalar, rope_factor, ...
inline constexpr double kMinTimeoutSeconds = 1e-3;
inline constexpr double kTimeoutBelowSeconds = 1e9;

/// Whether the product of non-negative factors exceeds `limit`, without computing it.
constexpr bool product_exceeds(std::int64_t limit, std::span<const std::int64_t> factors) {
  std::int64_t product = 1;
  for (const std::int64_t factor : factors) {
    if (factor == 0) return false;
  }
  for (const std::int64_t factor : factors) {
    if (factor > limit / product) return true;
    product *= factor;
  }
  return false;
}

constexpr bool product_exceeds(std::int64_t limit, std::initializer_list<std::int64_t> factors) {
  return product_exceeds(limit, std::span(factors.begin(), factors.size()));
}

}  // namespace trainyard
