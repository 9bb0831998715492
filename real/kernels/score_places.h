// What attention makes of where a query and a key stand: which keys a query does not see, and what
// its scores lose with the distance.
#pragma once

#include "real/kernels/kernel.h"

namespace trainyard {

/// Whether anything depends on where they stand.
inline bool looks_at_places(const OpAttrs& attrs) {
  return attrs.causal || attrs.attended > 0 || attrs.alibi != 0;
}

/// Where query i does not see key j, [Sq, Sk]: behind it (causal), and further back than the
/// attended ones.
at::Tensor hidden_keys(const OpAttrs& attrs, std::int64_t queries, std::int64_t keys,
                       at::Device device);

/// ALiBi's slope of head `head` of `heads`: of n = 2^k heads 2^(-8 (head + 1) / n); of more than n
/// and less than 2 n the others have every second of those of 2 n, from the first on (Press et al.
/// 2021, arXiv:2108.12409, section 3, and its released code).
double alibi_slope(std::int64_t head, std::int64_t heads);

/// Takes `times` the slopes times the distances from scores [B, N, Sq, Sk], whose heads are those
/// from `first` on of `heads`.
void subtract_distances(at::Tensor& scores, double times, std::int64_t first, std::int64_t heads);

}  // namespace trainyard
