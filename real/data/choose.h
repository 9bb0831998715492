// Random choices of which only the size is fixed.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/data/draws.h"

namespace trainyard {

/// `count` of the numbers 0 .. from-1, ascending; every set of that size is equally likely. One
/// draw per number: number i is taken with probability (still to take) / (numbers left) (Fan,
/// Muller and Rezucha 1962; Knuth, TAOCP 3.4.2, algorithm S). 0 <= count <= from.
inline std::vector<std::int64_t> choose(std::int64_t count, std::int64_t from, Draws& draws) {
  std::vector<std::int64_t> chosen;
  chosen.reserve(count);
  for (std::int64_t i = 0; i < from; ++i) {
    const std::int64_t to_take = count - static_cast<std::int64_t>(chosen.size());
    if (draws.below(from - i) < to_take) chosen.push_back(i);
  }
  return chosen;
}

/// `total` as a sum of `parts` positive numbers; every such sequence is equally likely, one of
/// C(total - 1, parts - 1). 1 <= parts <= total.
inline std::vector<std::int64_t> split_total(std::int64_t total, std::int64_t parts, Draws& draws) {
  std::vector<std::int64_t> ends =
      choose(parts - 1, total - 1, draws);  // part i ends behind ends[i]
  ends.push_back(total - 1);
  std::vector<std::int64_t> sizes;
  std::int64_t begin = 0;
  for (const std::int64_t end : ends) {
    sizes.push_back(end + 1 - begin);
    begin = end + 1;
  }
  return sizes;
}

}  // namespace trainyard
