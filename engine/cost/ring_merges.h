// What PyTorch's ring attention does beside the attention kernel, on the rank whose queries meet
// every block (torch/distributed/tensor/experimental/_attention.py). Its keys and values have as
// many heads as the queries.
#pragma once

#include "engine/graph/kernel_work.h"

namespace trainyard {

/// Bytes read and written to merge one block's results, or its gradients, into those so far in
/// fp32, and to join the keys and values that are sent on. `work` is of a block in a ring.
double merged_bytes(const KernelWork& work);

}  // namespace trainyard
