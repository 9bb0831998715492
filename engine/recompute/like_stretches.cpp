#include "engine/recompute/like_stretches.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace trainyard {

namespace {

/// [group] a number that like groups have in common: those of the first one.
template <typename Size>
std::vector<int> kinds_of(const ChainOf<Size>& chain) {
  using Sizes = std::tuple<Size, Size, Size, Size>;
  std::map<Sizes, std::vector<int>> known;  // groups unlike each other
  std::vector<int> kinds;
  for (int i = 0; i < chain.num_groups(); ++i) {
    std::vector<int>& alike = known[{chain.input[i + 1], chain.saved[i], chain.forward_extra[i],
                                     chain.backward_extra[i]}];
    const auto found = std::find_if(alike.begin(), alike.end(), [&](int other) {
      return are_alike_times(chain.forward[i], chain.forward[other]) &&
             are_alike_times(chain.backward[i], chain.backward[other]);
    });
    kinds.push_back(found == alike.end() ? i : *found);
    if (found == alike.end()) alike.push_back(i);
  }
  return kinds;
}

}  // namespace

bool are_alike_times(double time, double other) {
  return std::abs(time - other) <= kRoundedTime * std::max(time, other);
}

template <typename Size>
LikeStretches::LikeStretches(const ChainOf<Size>& chain)
    : stages_(chain.num_groups() + 1),
      first_(std::int64_t{stages_} * stages_) {
  const std::vector<int> kinds = kinds_of(chain);
  // [s][other] how many groups from either on are alike.
  std::vector<std::vector<int>> like(stages_, std::vector<int>(stages_ + 1));
  for (int s = stages_ - 2; s >= 0; --s) {
    for (int other = 0; other < s; ++other)
      like[s][other] = kinds[s] == kinds[other] ? 1 + like[s + 1][other + 1] : 0;
  }
  for (int s = 0; s < stages_; ++s) {
    int t = s;
    for (int other = 0; other < s; ++other) {
      for (; t < s + like[s][other]; ++t) first_[at(s, t)] = other;
    }
    for (; t < stages_; ++t) first_[at(s, t)] = s;
  }
}

template LikeStretches::LikeStretches(const RecomputeChain& chain);
template LikeStretches::LikeStretches(const SizedChain& chain);

double LikeStretches::cuts() const {
  double sum = 0;
  for (int s = 0; s < stages_; ++s) {
    for (int t = s; t < stages_; ++t) sum += first(s, t) == s ? t - s : 0;
  }
  return sum;
}

}  // namespace trainyard
