#include "engine/recompute/rotor.h"

#include <algorithm>
#include <limits>

#include "engine/base/error.h"
#include "engine/recompute/least_memory.h"

namespace trainyard {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Times of groups s to t with m slots beside a^s.
class RotorTable {
 public:
  RotorTable(const RecomputeChain& chain, const LeastMemory<std::int64_t>& least,
             std::int64_t slots)
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
  const LeastMemory<std::int64_t>& least_;
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
  return LeastMemory<std::int64_t>(chain).total();
}

std::variant<RecomputePlan, Infeasible> rotor(const RecomputeChain& chain, std::int64_t slots) {
  const LeastMemory<std::int64_t> least(chain);
  RecomputePlan out;
  out.least_slots = least.total();
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
