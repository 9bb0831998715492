#include "engine/partition/min_max_segments.h"

#include <algorithm>
#include <limits>

namespace trainyard {

Segments min_max_segments(const std::vector<double>& costs, std::size_t num_segments) {
  const std::size_t n = costs.size();
  const std::size_t count = std::min(num_segments, n);
  Segments out;
  if (count == 0) return out;
  std::vector<double> sum(n + 1, 0);  // of the first i
  for (std::size_t i = 0; i < n; ++i) sum[i + 1] = sum[i] + costs[i];
  // [k-1][i]: the best of the first i elements in k segments, and where the last of them begins.
  std::vector<std::vector<double>> best(
      count, std::vector<double>(n + 1, std::numeric_limits<double>::infinity()));
  std::vector<std::vector<std::size_t>> begin(count, std::vector<std::size_t>(n + 1, 0));
  best[0] = sum;
  for (std::size_t k = 1; k < count; ++k) {
    for (std::size_t i = k + 1; i <= n; ++i) {
      for (std::size_t j = k; j < i; ++j) {
        const double largest = std::max(best[k - 1][j], sum[i] - sum[j]);
        if (largest >= best[k][i]) continue;
        best[k][i] = largest;
        begin[k][i] = j;
      }
    }
  }
  out.minmax = best[count - 1][n];
  out.ends.resize(count);
  for (std::size_t k = count, end = n; k-- > 0; end = begin[k][end]) out.ends[k] = end;
  return out;
}

}  // namespace trainyard
