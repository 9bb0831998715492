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
  std::optional<OpKind> only = {};  // of this kind alone; one of a loss: all losses
  bool even = false;                // extents that two ranks divide, and often more
  bool uneven = false;              // that are as large, and few numbers of ranks divide
  DType type = DType::kFp64;        // of all but conditions
  bool images = false;              // convolutions, pools and norms of images, too
};

/// Results are read several times, or never where their op has others; of what is left over at the
/// end, parameters among it, a mean square or a binary cross entropy is taken, and the losses are
/// added up. Operands that divide, or have a logarithm, a power or an exponential, are made
/// positive or small first.
Graph random_graph(std::uint64_t seed, const RandomGraph& options);

}  // namespace trainyard
