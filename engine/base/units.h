// Quantities. Every duration is in seconds, every size in bytes, every rate per second; the alias
// says which, so that a signature reads without a comment.
#pragma once

#include <cstdint>
#include <limits>

namespace trainyard {

using Seconds = double;
using Bytes = std::int64_t;
using BytesPerSecond = double;
using Flop = double;  // a multiply-add is 2
using FlopPerSecond = double;

/// A time that does not come; what a forbidden choice costs.
inline constexpr Seconds kForever = std::numeric_limits<Seconds>::infinity();

inline constexpr double kKiB = 1024.0;
inline constexpr double kMiB = 1024.0 * kKiB;
inline constexpr double kGiB = 1024.0 * kMiB;
inline constexpr double kGB = 1e9;

}  // namespace trainyard
