#include "engine/recompute/least_memory.h"

#include <algorithm>
#include <limits>

namespace trainyard {

template <typename Size>
LeastMemory<Size>::LeastMemory(const ChainOf<Size>& chain)
    : chain_(chain),
      stages_(chain.num_groups() + 1),
      least_(std::int64_t{stages_} * stages_),
      dropping_(least_.size()),
      keeping_all_(least_.size()) {
  for (int s = stages_ - 1; s >= 0; --s) {
    for (int t = s; t < stages_; ++t) {
      dropping_[at(s, t)] = forward_alone(s, t);
      keeping_all_[at(s, t)] = s == t ? alone(s) : keeping(s, t, keeping_all_);
      least_[at(s, t)] = s == t ? alone(s) : std::min(keeping(s, t), checkpointing(s, t));
    }
  }
}

template <typename Size>
void LeastMemory<Size>::append_sequence(int s, int t, std::vector<ChainOp>& out) const {
  using Kind = ChainOp::Kind;
  if (s + 1 == stages_) {
    out.push_back({Kind::kLoss, s});
  } else if (s == t || keeping(s, t) <= least_[at(s, t)]) {
    out.push_back({Kind::kForwardSaving, s});
    if (s < t) append_sequence(s + 1, t, out);
    out.push_back({Kind::kBackward, s});
  } else {
    int best = s + 1;
    for (int j = s + 2; j <= t; ++j) {
      if (checkpointing_at(s, j, t) < checkpointing_at(s, best, t)) best = j;
    }
    out.push_back({Kind::kForwardFromCheckpoint, s});
    for (int k = s + 1; k < best; ++k) out.push_back({Kind::kForward, k});
    append_sequence(best, t, out);
    append_sequence(s, best - 1, out);
  }
}

/// Forward and backward of s, one behind the other.
template <typename Size>
Size LeastMemory<Size>::alone(int s) const {
  return gradient(s) + saved(s) + std::max(forward_extra(s), chain_.backward_extra[s]);
}

/// Fe s beside t's gradient, B s beside its own, and what is between them.
template <typename Size>
Size LeastMemory<Size>::keeping(int s, int t, const std::vector<Size>& between) const {
  return saved(s) + std::max({gradient(t) + forward_extra(s),
                              gradient(s) + chain_.backward_extra[s], between[at(s + 1, t)]});
}

/// Forwards of s to t - 1, beside t's gradient, that keep nothing.
template <typename Size>
Size LeastMemory<Size>::forward_alone(int s, int t) const {
  if (s == t) return 0;
  // From (s, t - 1), but with t's gradient: both are gradients plus what runs.
  Size most = s + 1 == t ? chain_.input[s + 1] + forward_extra(s)
                         : dropping_[at(s, t - 1)] - gradient(t - 1);
  if (s + 1 < t) {
    const int last = t - 1;
    most = std::max(most, chain_.input[last] + chain_.input[last + 1] + forward_extra(last));
  }
  return gradient(t) + most;
}

template <typename Size>
Size LeastMemory<Size>::checkpointing_at(int s, int j, int t) const {
  return std::max(chain_.input[j] + least_[at(j, t)], least_[at(s, j - 1)]);
}

template <typename Size>
Size LeastMemory<Size>::checkpointing(int s, int t) const {
  Size least = std::numeric_limits<Size>::max();
  for (int j = s + 1; j <= t; ++j) least = std::min(least, checkpointing_at(s, j, t));
  return std::max(least, dropping_[at(s, t)]);
}

template class LeastMemory<double>;
template class LeastMemory<std::int64_t>;

}  // namespace trainyard
