#include "report/memory_points.h"

#include <algorithm>

namespace trainyard {

std::vector<MemoryPoint> thinned(const std::vector<MemoryPoint>& points, std::size_t most,
                                 Ticks end) {
  if (points.size() <= most) return points;
  const auto stretches = static_cast<Ticks>(std::max<std::size_t>(1, most / 3));
  const auto stretch = [&](const MemoryPoint& point) {
    return std::min(stretches - 1, point.at * stretches / std::max<Ticks>(1, end));
  };
  const auto lower = [](const MemoryPoint& a, const MemoryPoint& b) {
    return sum(a.bytes) < sum(b.bytes);
  };
  std::vector<MemoryPoint> kept;
  for (auto from = points.begin(); from != points.end();) {
    const auto to = std::find_if(from, points.end(), [&](const MemoryPoint& point) {
      return stretch(point) != stretch(*from);
    });
    const auto lowest = std::min_element(from, to, lower);
    const auto highest = std::max_element(from, to, lower);
    for (auto at = from; at != to; ++at) {
      if (at == lowest || at == highest || at + 1 == to) kept.push_back(*at);
    }
    from = to;
  }
  return kept;
}

}  // namespace trainyard
