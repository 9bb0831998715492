#include "engine/partition/parameter_owners.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include "engine/base/indexed.h"

namespace trainyard {

std::vector<std::int32_t> balanced_owners(const std::vector<std::int64_t>& sizes,
                                          std::int32_t num_owners,
                                          std::vector<std::int32_t> known) {
  std::vector<std::size_t> largest_first(sizes.size());
  std::iota(largest_first.begin(), largest_first.end(), std::size_t{0});
  std::stable_sort(largest_first.begin(), largest_first.end(),
                   [&](std::size_t a, std::size_t b) { return sizes[a] > sizes[b]; });
  using Load = std::pair<std::int64_t, std::int32_t>;  // elements, owner
  std::priority_queue<Load, std::vector<Load>, std::greater<>> least;
  known.resize(sizes.size(), -1);
  Numbered<std::int64_t> loads(num_owners, 0);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (known[i] >= 0) loads[known[i]] += sizes[i];
  }
  for (std::int32_t owner = 0; owner < num_owners; ++owner) least.emplace(loads[owner], owner);
  for (const std::size_t i : largest_first) {
    if (known[i] >= 0) continue;
    const auto [load, owner] = least.top();
    least.pop();
    known[i] = owner;
    least.emplace(load + sizes[i], owner);
  }
  return known;
}

}  // namespace trainyard
