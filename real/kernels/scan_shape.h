// Sizes of a state space model's scan, as real/kernels/chunk_scan.cpp names them.
#pragma once

#include <cstdint>

namespace trainyard {

struct ScanShape {
  std::int64_t cells = 0;   // chunks of all sequences, a sequence's one behind the other
  std::int64_t chunks = 0;  // of a sequence
  std::int64_t tokens = 0;  // Q, of a chunk
  std::int64_t groups = 0, heads = 0, channels = 0, states = 0;        // G, R, P, K
  constexpr std::int64_t all_heads() const { return groups * heads; }  // N
};

}  // namespace trainyard
