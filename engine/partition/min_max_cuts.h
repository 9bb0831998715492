// A list of costs cut into consecutive segments whose largest sum is as small as can be, where cuts
// cost, too.
#pragma once

#include <cstdint>
#include <vector>

namespace trainyard {

struct CutSegments {
  std::vector<std::int64_t> begins;  // of all segments but the first; empty where there are no such
                                     // segments
  double minmax = 0;                 // the largest sum; infinite: there are no such segments
};

/// c(k, i) = min over j of max(c(k-1, j), costs[j] + ... + costs[i-1] + boundary[j] + boundary[i]),
/// the first such j, where c(k-1, j) has boundary[j], too. `boundary`: [i], what a cut in front of
/// element i adds to the sums on both of its sides; infinity where there may be none; the first
/// counts nowhere. No number is negative, and there are as many of both. ASSUME: 1 <= num_segments
/// <= costs.size(). O(num_segments n^2) at worst; j runs down no further than a segment's own costs
/// allow. Without costs of cuts min_max_segments() is faster.
CutSegments min_max_cuts(const std::vector<double>& costs, const std::vector<double>& boundary,
                         std::int64_t num_segments);

}  // namespace trainyard
