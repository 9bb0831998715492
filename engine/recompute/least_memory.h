// The least memory in which a chain can be trained, and a sequence that takes no more.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/recompute/chain.h"

namespace trainyard {

/// Memory beside a^s that groups s to t need, whatever the time. Group L is the loss. `Size` as of
/// the chain, which has to outlive it: double or std::int64_t. O(L^3) time, O(L^2) memory.
template <typename Size>
class LeastMemory {
 public:
  explicit LeastMemory(const ChainOf<Size>& chain);

  Size operator()(int s, int t) const { return least_[at(s, t)]; }
  /// Where s is kept.
  Size keeping(int s, int t) const { return keeping(s, t, least_); }
  /// Where all are, which takes no longer than anything else.
  Size keeping_all(int s, int t) const { return keeping_all_[at(s, t)]; }
  /// The whole chain's, a^0 among it.
  Size total() const { return least_[at(0, stages_ - 1)] + chain_.input[0]; }

  /// A sequence that needs no more. It keeps where that takes no more memory than recomputing.
  void append_sequence(int s, int t, std::vector<ChainOp>& out) const;

 private:
  std::int64_t at(int s, int t) const { return std::int64_t{s} * stages_ + t; }
  /// Size of the gradient that comes into group t.
  Size gradient(int t) const { return t + 1 < stages_ ? chain_.input[t + 1] : 0; }
  Size saved(int s) const { return s + 1 < stages_ ? chain_.saved[s] : 0; }
  Size forward_extra(int s) const { return s + 1 < stages_ ? chain_.forward_extra[s] : 0; }
  Size alone(int s) const;
  Size keeping(int s, int t, const std::vector<Size>& between) const;
  Size forward_alone(int s, int t) const;
  Size checkpointing_at(int s, int j, int t) const;
  Size checkpointing(int s, int t) const;

  const ChainOf<Size>& chain_;
  int stages_;
  std::vector<Size> least_, dropping_, keeping_all_;
};

extern template class LeastMemory<double>;
extern template class LeastMemory<std::int64_t>;

}  // namespace trainyard
