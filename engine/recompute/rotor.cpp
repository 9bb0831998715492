#include "engine/recompute/rotor.h"

#include <algorithm>
#include <limits>

#include "engine/base/error.h"

namespace trainyard {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Slots beside a^s that groups s to t need, whatever the time. Group L is the loss.
class LeastMemory {
 public:
  explicit LeastMemory(const RecomputeChain& chain)
      : chain_(chain),
        stages_(chain.num_groups() + 1),
        least_(std::int64_t{stages_} * stages_),
        dropping_(least_.size()),
        keeping_all_(least_.size()) {
    for (int s = stages_ - 1; s >= 0; --s) {
      for (int t = s; t < stages_; ++t) {
        dropping_[at(s, t)] = forward_alone(s, t);
        keeping_all_[at(s, t)] = s == t ? alone(s) : keeping(s, t, keeping_all_);
        least_[at(s, t)] = s == t ? alone(s) : std::min(keeping(s, t, least_), checkpointing(s, t));
      }
    }
  }

  std::int64_t operator()(int s, int t) const { return least_[at(s, t)]; }
  /// Where s is kept.
  std::int64_t keeping(int s, int t) const { return keeping(s, t, least_); }
  /// Where all are, which takes no longer than anything else.
  std::int64_t keeping_all(int s, int t) const { return keeping_all_[at(s, t)]; }

 private:
  std::int64_t at(int s, int t) const { return std::int64_t{s} * stages_ + t; }
  /// Slots of the gradient that comes into group t.
  std::int64_t gradient(int t) const { return t + 1 < stages_ ? chain_.input[t + 1] : 0; }
  std::int64_t saved(int s) const { return s + 1 < stages_ ? chain_.saved[s] : 0; }
  std::int64_t forward_extra(int s) const { return s + 1 < stages_ ? chain_.forward_extra[s] : 0; }

  /// Forward and backward of s, one behind the other.
  std::int64_t alone(int s) const {
    return gradient(s) + saved(s) + std::max(forward_extra(s), chain_.backward_extra[s]);
  }

  /// Fe s beside t's gradient, B s beside its own, and what is between them.
  std::int64_t keeping(int s, int t, const std::vector<std::int64_t>& between) const {
    return saved(s) + std::max({gradient(t) + forward_extra(s),
                                gradient(s) + chain_.backward_extra[s], between[at(s + 1, t)]});
  }

  /// Forwards of s to t - 1, beside t's gradient, that keep nothing.
  std::int64_t forward_alone(int s, int t) const {
    if (s == t) return 0;
    // From (s, t - 1), but with t's gradient: both are gradients plus what runs.
    std::int64_t most = s + 1 == t ? chain_.input[s + 1] + forward_extra(s)
                                   : dropping_[at(s, t - 1)] - gradient(t - 1);
    if (s + 1 < t) {
      const int last = t - 1;
      most = std::max(most, chain_.input[last] + chain_.input[last + 1] + forward_extra(last));
    }
    return gradient(t) + most;
  }

  std::int64_t checkpointing(int s, int t) const {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (int j = s + 1; j <= t; ++j) {
      least = std::min(least, std::max(chain_.input[j] + least_[at(j, t)], least_[at(s, j - 1)]));
    }
    return std::max(least, dropping_[at(s, t)]);
  }

  const RecomputeChain& chain_;
  int stages_;
  std::vector<std::int64_t> least_, dropping_, keeping_all_;
};

/// Times of groups s to t with m slots beside a^s.
class RotorTable {
 public:
  RotorTable(const RecomputeChain& chain, const LeastMemory& least, std::int64_t slots)
      : chain_(chain),
        least_(least),
        stages_(chain.num_groups() + 1),
        width_(slots + 1),
        time_(std::int64_t{stages_} * (stages_ + 1) / 2 * width_, kNever),
        until_(std::int64_t{stages_} + 1),
        back_(until_.size()) {
    for (int s = 0; s < stages_; ++s) {
      until_[s + 1] = until_[s] + forward(s);
      back_[s + 1] = back_[s] + chain.backward[s];
    }
    for (int length = 0; length < stages_; ++length) {
      for (int s = 0; s + length < stages_; ++s) fill(s, s + length);
    }
  }

  double time(std::int64_t m) const { return row(0, stages_ - 1)[m]; }

  void append_sequence(int s, int t, std::int64_t m, std::vector<ChainOp>& out) const {
    if (s == t) {
      if (s + 1 == stages_) {
        out.push_back({ChainOp::Kind::kLoss, s});
      } else {
        out.push_back({ChainOp::Kind::kForwardSaving, s});
        out.push_back({ChainOp::Kind::kBackward, s});
      }
      return;
    }
    const double best = row(s, t)[m];
    for (int j = s + 1; j <= t; ++j) {
      if (m < chain_.input[j] || checkpointed(s, j, t, m) != best) continue;
      out.push_back({ChainOp::Kind::kForwardFromCheckpoint, s});
      for (int k = s + 1; k < j; ++k) out.push_back({ChainOp::Kind::kForward, k});
      append_sequence(j, t, m - chain_.input[j], out);
      append_sequence(s, j - 1, m, out);
      return;
    }
    check(m >= least_.keeping(s, t) && kept(s, t, m) == best, "no choice makes the best time");
    out.push_back({ChainOp::Kind::kForwardSaving, s});
    append_sequence(s + 1, t, m - chain_.saved[s], out);
    out.push_back({ChainOp::Kind::kBackward, s});
  }

 private:
  double forward(int s) const { return s + 1 < stages_ ? chain_.forward[s] : 0; }

  std::int64_t begin(int s, int t) const {
    // Rows of one s lie together, by t.
    const auto in_front = std::int64_t{s} * (2 * stages_ - s + 1) / 2;
    return (in_front + t - s) * width_;
  }
  const double* row(int s, int t) const { return time_.data() + begin(s, t); }

  /// The time of groups s to t where nothing runs twice.
  double once(int s, int t) const { return until_[t + 1] - until_[s] + (back_[t + 1] - back_[s]); }
  double again(int s, int j) const { return until_[j] - until_[s]; }

  double checkpointed(int s, int j, int t, std::int64_t m) const {
    return (row(j, t)[m - chain_.input[j]] + row(s, j - 1)[m]) + again(s, j);
  }
  double kept(int s, int t, std::int64_t m) const {
    return (chain_.forward[s] + chain_.backward[s]) + row(s + 1, t)[m - chain_.saved[s]];
  }

  void fill(int s, int t) {
    double* const out = time_.data() + begin(s, t);
    const std::int64_t from = least_(s, t);
    if (s == t) {
      for (std::int64_t m = from; m < width_; ++m) out[m] = forward(s) + chain_.backward[s];
      return;
    }
    for (std::int64_t m = std::max(from, least_.keeping(s, t)); m < width_; ++m)
      out[m] = kept(s, t, m);
    const double at_best = once(s, t);
    std::int64_t until = std::min(width_, least_.keeping_all(s, t));
    for (int j = s + 1; j <= t; ++j) {
      const std::int64_t input = chain_.input[j];
      const std::int64_t first = std::max({from, input + least_(j, t), least_(s, j - 1)});
      const double* const behind = row(j, t);
      const double* const before = row(s, j - 1);
      const double forwards = again(s, j);
      // Times fall with memory: from `until` on they are shorter than anything from here can be.
      while (until > first && out[until - 1] <= at_best + forwards) --until;
      for (std::int64_t m = first; m < until; ++m)
        out[m] = std::min(out[m], (behind[m - input] + before[m]) + forwards);
    }
  }

  const RecomputeChain& chain_;
  const LeastMemory& least_;
  int stages_;
  std::int64_t width_;
  std::vector<double> time_;
  std::vector<double> until_, back_;  // [s] forwards and backwards of those in front of s
};

}  // namespace

double rotor_steps(int num_groups, std::int64_t slots) {
  const double stages = num_groups + 1;
  return stages * stages * stages / 6 * static_cast<double>(slots);
}

std::int64_t least_slots(const RecomputeChain& chain) {
  return LeastMemory(chain)(0, chain.num_groups()) + chain.input[0];
}

std::variant<RecomputePlan, Infeasible> rotor(const RecomputeChain& chain, std::int64_t slots) {
  const LeastMemory least(chain);
  RecomputePlan out;
  out.least_slots = least(0, chain.num_groups()) + chain.input[0];
  if (slots < out.least_slots) {
    return Infeasible{"no sequence of operations fits " + std::to_string(slots) + " slots; " +
                      std::to_string(out.least_slots) + " are the fewest that work"};
  }
  const std::int64_t beside = slots - chain.input[0];
  const RotorTable table(chain, least, beside);
  out.time = table.time(beside);
  table.append_sequence(0, chain.num_groups(), beside, out.sequence);
  const auto outcome = run_sequence(chain, out.sequence);
  check(std::holds_alternative<ChainOutcome>(outcome), "rotor made a sequence that cannot run");
  out.peak = std::get<ChainOutcome>(outcome).peak;
  check(out.peak <= slots, "rotor made a sequence that takes more memory than there is");
  return out;
}

}  // namespace trainyard
