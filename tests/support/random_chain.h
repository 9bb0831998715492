// Groups of chains that rotor trains, drawn.
#pragma once

#include <cstdint>
#include <random>

#include "engine/recompute/chain.h"

namespace trainyard {

/// 0 to `most`.
inline std::int64_t drawn(std::mt19937_64& random, int most) {
  return static_cast<std::int64_t>(random() % (most + 1));
}

/// Puts a group behind the last: a few units of time and slots each.
inline void add_group(RecomputeChain& chain, std::mt19937_64& random) {
  chain.forward.push_back(static_cast<double>(1 + drawn(random, 8)));
  chain.backward.push_back(2 * chain.forward.back());
  chain.input.push_back(1 + drawn(random, 3));
  chain.saved.push_back(chain.input.back() + drawn(random, 5));
  chain.forward_extra.push_back(drawn(random, 3));
  chain.backward_extra.push_back(drawn(random, 3));
}

}  // namespace trainyard
