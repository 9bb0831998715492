// Attention by the kernel that never keeps the scores, and by those that do.
#pragma once

#include <cstdint>
#include <vector>

namespace trainyard {

struct AttentionTrial {
  std::int64_t heads = 4, kv_heads = 4, head_dim = 6;
  std::int64_t queries = 9, keys = 9;
  bool packed = true;  // q, k and v in one tensor: of as many queries as keys
  bool causal = false;
  bool padded = false;        // samples end with padding, each with another number of tokens
  bool deferred = false;      // kernels that may not look at numbers
  std::int32_t attended = 0;  // keys that a query sees, the latest; 0: all
};

struct Attention {
  std::vector<double> out, dq, dk, dv;
};

/// In fp64, of numbers that are the same in all.
Attention attend_by_flash(const AttentionTrial& trial);
Attention attend_by_scores(const AttentionTrial& trial);
/// By `ranks` ranks with a piece from each end of the sequence: keys and values go round them, or
/// all are at hand. Queries and keys are of one sequence.
Attention attend_by_blocks(const AttentionTrial& trial, int ranks, bool ring);

}  // namespace trainyard
