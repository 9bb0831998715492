#include "calibrate/validate/rank_correlation.h"

#include <algorithm>

#include "engine/base/error.h"

namespace trainyard {

RankCorrelation kendall_tau(const std::vector<double>& predicted,
                            const std::vector<double>& measured, double least_difference) {
  check(predicted.size() == measured.size(), "a prediction for each measurement");
  RankCorrelation out;
  std::ptrdiff_t agreement = 0;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    for (std::size_t j = i + 1; j < measured.size(); ++j) {
      const double less = std::min(measured[i], measured[j]);
      const double more = std::max(measured[i], measured[j]);
      if (more < less * (1 + least_difference)) continue;
      ++out.pairs;
      if (predicted[i] == predicted[j]) continue;
      agreement += (predicted[i] < predicted[j]) == (measured[i] < measured[j]) ? 1 : -1;
    }
  }
  if (out.pairs > 0) out.tau = static_cast<double>(agreement) / static_cast<double>(out.pairs);
  return out;
}

}  // namespace trainyard
