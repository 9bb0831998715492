// What the kernels of attention, split or fused, allocate beside their results, in bytes;
// workspace.h.
#pragma once

#include <cstdint>

#include "real/kernels/op_sizes.h"

namespace trainyard {

std::int64_t flash_attention_workspace(const OpSizes& s);
std::int64_t flash_attention_dx_workspace(const OpSizes& s);
std::int64_t scores_workspace(const OpSizes& s);
std::int64_t scores_dx_workspace(const OpSizes& s);
std::int64_t block_attention_workspace(const OpSizes& s);
std::int64_t block_attention_dx_workspace(const OpSizes& s);
std::int64_t context_workspace(const OpSizes& s);
std::int64_t context_dx_workspace(const OpSizes& s);
std::int64_t softmax_workspace(const OpSizes& s);
std::int64_t relative_bias_workspace(const OpSizes& s);
std::int64_t relative_bias_dw_workspace(const OpSizes& s);
std::int64_t rope_workspace(const OpSizes& s);
std::int64_t head_norm_workspace(const OpSizes& s);
std::int64_t head_norm_b_workspace(const OpSizes& s);

}  // namespace trainyard
