#include "engine/partition/min_max_cuts.h"

#include <algorithm>

#include "engine/base/indexed.h"
#include "engine/base/units.h"

namespace trainyard {

CutSegments min_max_cuts(const std::vector<double>& costs, const std::vector<double>& boundary,
                         std::int64_t num_segments) {
  const std::int64_t n = std::ssize(costs);
  Numbered<double> sum = {0};  // of the first i
  for (const double cost : costs) sum.push_back(sum.back() + cost);
  Numbered<double> cut(boundary.begin(), boundary.end());
  cut[0] = 0;
  cut.push_back(0);  // behind the last
  // [k-1][i]: the best of the first i elements in k segments, and where the last of them begins.
  Numbered<Numbered<double>> best(num_segments, Numbered<double>(n + 1, kForever));
  Numbered<Numbered<std::int64_t>> begin(num_segments, Numbered<std::int64_t>(n + 1, 0));
  for (std::int64_t i = 0; i <= n; ++i) best[0][i] = sum[i] + cut[i];
  for (std::int64_t k = 1; k < num_segments; ++k) {
    for (std::int64_t i = k + 1; i <= n; ++i) {
      double& least = best[k][i];
      for (std::int64_t j = i; j-- > k && sum[i] - sum[j] <= least;) {
        const double largest = std::max(best[k - 1][j], sum[i] - sum[j] + cut[j] + cut[i]);
        if (largest > least || largest == kForever) continue;
        least = largest;
        begin[k][i] = j;
      }
    }
  }
  CutSegments out;
  out.minmax = best[num_segments - 1][n];
  if (out.minmax == kForever) return out;
  for (std::int64_t k = num_segments - 1, end = n; k > 0; --k) {
    end = begin[k][end];
    out.begins.push_back(end);
  }
  std::reverse(out.begins.begin(), out.begins.end());
  return out;
}

}  // namespace trainyard
