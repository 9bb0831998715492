// Attention, its positions and norms by heads, as their papers and the transformers library write
// them, head by head of LibTorch's operators that autograd follows.
#pragma once

#include "engine/graph/graph.h"
#include "real/torch.h"

namespace trainyard {

at::Tensor rms_norm_by_torch(const OpAttrs& attrs, const at::Tensor& x, const at::Tensor& weight);
/// [q k v] with the norm of each head of q and k.
at::Tensor heads_normalized_by_torch(const OpAttrs& attrs, const at::Tensor& qkv,
                                     const at::Tensor& q_weight, const at::Tensor& k_weight);
/// [q k v] with q and k turned.
at::Tensor turned_by_torch(const OpAttrs& attrs, const at::Tensor& qkv);
/// [q k v] -> the context of each query.
at::Tensor attended_by_torch(const OpAttrs& attrs, const at::Tensor& qkv);

}  // namespace trainyard
