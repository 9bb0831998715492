// Products of linear layers in 8 bits. The kernels amax, quantize and update_scales, which make
// their operands, are in kernels.h.
#pragma once

#include "real/kernels/kernel.h"

namespace trainyard {

/// Whether a linear layer's operands are of 8 bits: their scales are the last two then.
bool is_fp8_product(const KernelCall& call);

void fp8_linear(KernelCall& call);
void fp8_linear_dx(KernelCall& call);
void fp8_linear_dw(KernelCall& call);

}  // namespace trainyard
