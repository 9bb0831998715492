#include "calibrate/measure/message_sizes.h"

#include <algorithm>
#include <cmath>

namespace trainyard {

std::optional<Bytes> next_message_size(std::vector<MessagePoint> points, Bytes least, Bytes most) {
  if (points.empty()) return least;
  if (points.size() == 1) return most;
  std::sort(points.begin(), points.end(),
            [](const MessagePoint& a, const MessagePoint& b) { return a.bytes < b.bytes; });
  const auto x = [&](std::size_t i) { return std::log2(static_cast<double>(points[i].bytes)); };
  const auto slope = [&](std::size_t i) {  // of the gap behind point i
    return std::log2(points[i + 1].time / points[i].time) / (x(i + 1) - x(i));
  };
  if (points.size() == 2) return static_cast<Bytes>(std::exp2((x(0) + x(1)) / 2));
  std::optional<Bytes> next;
  double most_doubt = 0.03;
  for (std::size_t i = 0; i + 1 < points.size(); ++i) {
    const double width = x(i + 1) - x(i);
    if (width <= 1.01) continue;
    double bend = 0;
    if (i > 0) bend = std::max(bend, std::abs(slope(i) - slope(i - 1)));
    if (i + 2 < points.size()) bend = std::max(bend, std::abs(slope(i + 1) - slope(i)));
    // The curve leaves the chord by at most a quarter of the gap times the change of slope, in
    // doublings.
    const double doubt = std::exp2(bend * width / 4) - 1;
    if (doubt <= most_doubt) continue;
    most_doubt = doubt;
    next = static_cast<Bytes>(std::exp2((x(i) + x(i + 1)) / 2));
  }
  return next;
}

}  // namespace trainyard
