// What correcting an update takes beside its operands.
#pragma once

#include <cstdint>

namespace trainyard {

/// Elements that are corrected at a time, in fp64.
inline constexpr std::int64_t kCorrectedAtOnce = 1 << 16;

}  // namespace trainyard
