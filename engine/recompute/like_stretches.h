// Stretches of a chain that repeat: the layers of a transformer.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/recompute/chain.h"

namespace trainyard {

/// Times that differ by less are of the same kernels, begun at another time.
inline constexpr double kRoundedTime = 1e-9;
bool are_alike_times(double time, double other);

/// Which stretches of groups are trained alike, whatever is in front of them: in the same times,
/// but for how those were rounded, and the same memory beside the stretch's input. Group L is the
/// loss, and like no other. O(L^2) time and memory.
class LikeStretches {
 public:
  template <typename Size>
  explicit LikeStretches(const ChainOf<Size>& chain);

  /// The first group from which on so many are like s to t; s itself: none in front of it is.
  int first(int s, int t) const { return first_[at(s, t)]; }

  /// Places to cut each stretch in two, of those that are like none in front of them.
  double cuts() const;

 private:
  std::int64_t at(int s, int t) const { return std::int64_t{s} * stages_ + t; }

  int stages_;
  std::vector<std::int32_t> first_;
};

extern template LikeStretches::LikeStretches(const RecomputeChain& chain);
extern template LikeStretches::LikeStretches(const SizedChain& chain);

}  // namespace trainyard
