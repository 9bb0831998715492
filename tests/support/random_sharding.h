// Shardings by chance: every op split in one of the ways in which it can be, every tensor stored in
// whichever way its ranks have pieces, of equal size unless others are asked for.
#pragma once

#include <cstdint>

#include "engine/passes/sharding.h"

namespace trainyard {

struct RandomSharding {
  bool summands = true;  // tensors may be stored as summands, or entered
  bool uneven = false;   // ranks may have pieces of unlike size
};

/// Splits a graph as its ops are; `sharding` has a mesh. False: some op reads a parameter that
/// another has split otherwise, and can read it in no such way.
bool plan_random_sharding(std::uint64_t seed, const RandomSharding& options, const Graph& graph,
                          Sharding& sharding);

}  // namespace trainyard
