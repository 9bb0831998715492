#include "engine/partition/min_max_segments.h"

#include <algorithm>
#include <limits>

namespace trainyard {

namespace {

/// The first of [low, high) that `holds`, which holds of all behind it; high: none.
template <typename Holds>
std::size_t first_that(std::size_t low, std::size_t high, Holds holds) {
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (holds(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

}  // namespace

Segments min_max_segments(const std::vector<double>& costs, std::size_t num_segments) {
  const std::size_t n = costs.size();
  const std::size_t count = std::min(num_segments, n);
  Segments out;
  if (count == 0) return out;
  std::vector<double> sum(n + 1, 0);  // of the first i
  for (std::size_t i = 0; i < n; ++i) sum[i + 1] = sum[i] + costs[i];
  // [i]: the best of the first i elements in so many segments; begin[k][i]: where the last begins.
  std::vector<double> before = sum, best;
  std::vector<std::vector<std::size_t>> begin(count, std::vector<std::size_t>(n + 1, 0));
  for (std::size_t k = 1; k < count; ++k) {
    best.assign(n + 1, std::numeric_limits<double>::infinity());
    for (std::size_t i = k + 1; i <= n; ++i) {
      // Behind j the last segment is no longer the larger side: `before` grows, the rest shrinks.
      const std::size_t j =
          first_that(k, i - 1, [&](std::size_t at) { return before[at] >= sum[i] - sum[at]; });
      best[i] = std::max(before[j], sum[i] - sum[j]);
      begin[k][i] = j;
      if (j == k || sum[i] - sum[j - 1] > best[i]) continue;
      best[i] = sum[i] - sum[j - 1];
      begin[k][i] = first_that(k, j, [&](std::size_t at) { return sum[i] - sum[at] <= best[i]; });
    }
    before.swap(best);
  }
  out.minmax = before[n];
  out.ends.resize(count);
  for (std::size_t k = count, end = n; k-- > 0; end = begin[k][end]) out.ends[k] = end;
  return out;
}

}  // namespace trainyard
