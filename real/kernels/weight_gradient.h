// Where a _dw kernel of a product or a look-up leaves its gradients.
#pragma once

#include "real/kernels/kernel.h"

namespace trainyard {

/// What the gradient of the i-th parameter is added to; where it is written instead, zeros.
inline at::Tensor weight_gradient(KernelCall& call, std::size_t i) {
  return call.accumulates.empty() ? call.out(i).zero_() : call.accumulates[i];
}

}  // namespace trainyard
