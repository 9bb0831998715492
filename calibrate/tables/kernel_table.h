// Tables of timed GEMMs that others have measured, as points of curves.
#pragma once

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/cost/op_curves.h"

namespace trainyard {

struct KernelTable {
  std::map<KernelForm, std::vector<CurvePoint>>
      points;  // of equal shapes the median; at most 400 shapes of each, spread over all
  std::size_t num_rows = 0;  // that were taken
};

/// GEMMs [m, k] x [k, n] in `type`, of one of two forms, told apart by the header:
///
///   own    a CSV with the columns m, k, n, us, and where they say more: part (forward, input_grad,
///   weight_grad;
///          else forward), device
///   Vidur  a CSV of timed layers: time_stats.attn_pre_proj.median and the like (ms), num_tokens,
///          num_tensor_parallel_workers, n_head, n_kv_head, n_embd, n_expanded_embd, use_gated_mlp
///
/// `device`: rows of this device alone, "" where the table has no such column. Throws ConfigError
/// with file, line and column for anything else: for a time that no clock says, and for a GEMM
/// that ran `fastest` or faster.
KernelTable read_kernel_table(
    const std::string& text, const std::string& file, DType type, const std::string& device,
    FlopPerSecond fastest = std::numeric_limits<FlopPerSecond>::infinity());

}  // namespace trainyard
