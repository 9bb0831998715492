// The forward of an op of a graph as LibTorch has it, for its autograd to follow.
#pragma once

#include "engine/graph/graph.h"
#include "real/torch.h"

namespace trainyard {

/// Sets the op's results. A mean loss is of as many microbatches as are said.
void run_by_torch(const Graph& graph, const Op& op, int microbatches,
                  Indexed<TensorId, at::Tensor>& values);

}  // namespace trainyard
