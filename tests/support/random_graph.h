// Graphs of general ops, and of ops of images, over small tensors, for tests that compare what is
// made of them with what they mean.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/graph/graph.h"

namespace trainyard {

struct RandomGraph {
  int ops = 6;                      // beside losses, and views that make operands fit
  int layers = 1;                   // the ops are spread over them, in order; losses behind
  std::optional<OpKind> only = {};  // of this kind alone
  bool even = false;                // extents that two ranks divide, and often more
  bool images = false;              // convolutions, pools and batch norms, too
};

/// In fp64. Results are read several times, or never where their op has others; of what is left
/// over at the end, parameters among it, a mean square is taken, and the losses are added up.
Graph random_graph(std::uint64_t seed, const RandomGraph& options);

}  // namespace trainyard
