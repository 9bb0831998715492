// What an MLP's gate goes through before it meets the up projection.
#pragma once

#include <cstdint>

namespace trainyard {

enum class Gate : std::uint8_t { kSilu, kGelu, kTanhGelu };

}  // namespace trainyard
