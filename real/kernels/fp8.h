// Products of linear layers in 8 bits. The kernels amax, quantize and update_scales, which make
// their operands, are in kernels.h.
#pragma once

#include <cstdint>
#include <vector>

#include "real/kernels/kernel.h"

namespace trainyard {

/// Whether a linear layer's operands are of 8 bits: their scales are the last two then.
bool is_fp8_product(const KernelCall& call);

void fp8_linear(KernelCall& call);
void fp8_linear_dx(KernelCall& call);
void fp8_linear_dw(KernelCall& call);

/// Elements of one weight in a tensor of several; those of a number share a scale.
struct WeightPart {
  std::int64_t begin = 0, size = 0;
  std::int64_t weight = 0;
};

/// amax and quantize of such a tensor: a largest element, or a scale, of each weight. Numbers are
/// rounded to the type of largest elements first.
void amax_of_weights(KernelCall& call, const std::vector<WeightPart>& runs);
void quantize_weights(KernelCall& call, const std::vector<WeightPart>& runs);

}  // namespace trainyard
