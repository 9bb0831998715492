#include "engine/planner/balanced_bound.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace trainyard {

namespace {

/// Whether stages that each take `time` get through all pieces.
bool suffices(const std::vector<std::vector<Seconds>>& before, Seconds time) {
  // Up to where pieces are done: so many, and that part of the next.
  std::size_t piece = 0;
  double part = 0;
  for (const std::vector<Seconds>& of : before) {
    Seconds left = time;
    for (; piece + 1 < of.size(); ++piece, part = 0) {
      const Seconds all = of[piece + 1] - of[piece];
      if ((1 - part) * all > left) {
        part += left / all;
        break;
      }
      left -= (1 - part) * all;
    }
    if (piece + 1 == of.size()) return true;
  }
  return false;
}

}  // namespace

Seconds balanced_bound(const std::vector<std::vector<Seconds>>& before) {
  Seconds low = 0, high = std::numeric_limits<double>::infinity();
  for (const std::vector<Seconds>& of : before) high = std::min(high, of.back());
  constexpr int kHalvings = 50;
  for (int i = 0; i < kHalvings; ++i) {
    const Seconds middle = (low + high) / 2;
    (suffices(before, middle) ? high : low) = middle;
  }
  return low;
}

}  // namespace trainyard
