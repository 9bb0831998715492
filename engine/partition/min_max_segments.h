// A list of costs cut into consecutive segments whose largest sum is as small as can be.
#pragma once

#include <cstddef>
#include <vector>

namespace trainyard {

struct Segments {
  std::vector<std::size_t> ends;  // [segment]: index behind its last element; none is empty
  double minmax = 0;              // the largest sum
};

/// c(k, i) = min over j of max(c(k-1, j), costs[j] + ... + costs[i-1]), the first such j. At most
/// as many segments as there are costs. Karakus et al. (arXiv:2111.05972), algorithm 2.
/// Costs are >= 0. O(num_segments n log n).
Segments min_max_segments(const std::vector<double>& costs, std::size_t num_segments);

}  // namespace trainyard
