#include "engine/partition/d_hondt.h"

#include <cstddef>

namespace trainyard {

std::vector<std::vector<std::int64_t>> d_hondt(const std::vector<double>& costs,
                                               const std::vector<std::int64_t>& devices) {
  std::vector<std::vector<std::int64_t>> seats(costs.size());
  if (costs.empty()) return seats;
  for (const std::int64_t device : devices) {
    const auto quotient = [&](std::size_t i) {
      return costs[i] / static_cast<double>(seats[i].size() + 1);
    };
    std::size_t best = 0;
    for (std::size_t i = 1; i < costs.size(); ++i) {
      if (quotient(i) > quotient(best)) best = i;
    }
    seats[best].push_back(device);
  }
  return seats;
}

}  // namespace trainyard
