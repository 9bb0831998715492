// What a norm without means multiplies its features by.
#pragma once

#include "engine/graph/op_attrs.h"
#include "real/torch.h"

namespace trainyard {

/// The factor of each feature: the weight, beside what all of them are shifted by.
inline at::Tensor norm_factor(const at::Tensor& weight, const OpAttrs& attrs, at::ScalarType type) {
  return attrs.shift == 0 ? weight.to(type) : weight.to(type).add(attrs.shift);
}

}  // namespace trainyard
