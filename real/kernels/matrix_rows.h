// Tensors as kernels of rows see them.
#pragma once

#include "real/torch.h"

namespace trainyard {

/// x [.., K] as [M, K].
inline at::Tensor rows_of(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

}  // namespace trainyard
