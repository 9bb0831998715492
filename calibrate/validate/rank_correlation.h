// Whether predictions put plans in the order in which measurements do.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace trainyard {

struct RankCorrelation {
  std::size_t pairs = 0;      // that count
  std::optional<double> tau;  // nullopt: no pair counts
};

/// Kendall's tau over the pairs of plans whose measured values differ by at least
/// `least_difference` of the smaller one: (pairs in the same order - pairs in the opposite order) /
/// pairs. A pair whose predictions are equal counts as neither. O(n^2).
RankCorrelation kendall_tau(const std::vector<double>& predicted,
                            const std::vector<double>& measured, double least_difference);

}  // namespace trainyard
