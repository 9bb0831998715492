// Windows over images, as LibTorch takes their numbers.
#pragma once

#include <array>
#include <cstdint>

#include "engine/graph/graph.h"

namespace trainyard {

inline std::array<std::int64_t, 2> pair_of(HeightWidth both) { return {both.height, both.width}; }

}  // namespace trainyard
