// Chains whose sizes are no whole slots: plans that fit the sizes as they are, and bounds on them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/recompute/chain.h"

namespace trainyard {

struct Slots {
  std::int64_t count = 0;
  double size = 0;     // of one, in the unit of the sizes
  bool exact = false;  // every size is a whole number of them
};

/// Memory in at most `most` slots: of the largest size that all sizes are whole multiples of, as
/// far as they have nine decimals at most and that takes no more slots; else in `most`.
Slots slots_of(const SizedChain& chain, double memory, std::int64_t most);

enum class Rounding : std::uint8_t { kUp, kDown };

/// What is larger than 2^45 slots counts as so many.
inline constexpr std::int64_t kMostSlotsOfSize = std::int64_t{1} << 45U;
RecomputeChain in_slots(const SizedChain& chain, double slot_size, Rounding rounding);

/// size / slot_size rounded, but for what floating point adds.
double whole_slots(double size, double slot_size, Rounding rounding);

/// Whether a size is within memory, but for what floating point adds.
bool is_within(double size, double memory);

struct SizedPlan {
  double time = 0;
  std::vector<ChainOp> sequence;
  double peak = 0;  // a^0 among it
};

/// The plan of a sequence that can run.
SizedPlan plan_of(const SizedChain& chain, std::vector<ChainOp> sequence);

/// Rotor's sequence with sizes rounded up to slots. Where they do not fit, and as they are would,
/// the sequence that takes the least memory. nullopt: no sequence fits.
std::optional<SizedPlan> fastest_within(const SizedChain& chain, double memory, std::int64_t most);

/// No persistent sequence within memory is faster: rotor's time with sizes rounded down to slots.
/// Infinity: none fits.
double bound_within(const SizedChain& chain, double memory, std::int64_t most);

/// The least memory that works. O(L^3).
double least_memory(const SizedChain& chain);

/// The sequence that takes it.
std::vector<ChainOp> least_sequence(const SizedChain& chain);

}  // namespace trainyard
