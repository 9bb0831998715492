// Rotor's table: the times of all stretches of a chain in all memory that there may be.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/recompute/chain.h"
#include "engine/recompute/least_memory.h"
#include "engine/recompute/like_stretches.h"

namespace trainyard {

/// Times of groups s to t with m slots beside a^s, m up to `slots`; one row for all stretches that
/// are alike. The chain and its least memory have to outlive it.
class RotorTable {
 public:
  RotorTable(const RecomputeChain& chain, const LeastMemory<std::int64_t>& least,
             std::int64_t slots);

  double time(std::int64_t m) const { return row(0, stages_ - 1)[m]; }
  /// That of groups s to t; infinity: there is no sequence.
  double time(int s, int t, std::int64_t m) const { return row(s, t)[m]; }
  /// Forwards of s to t - 1, once each.
  double forwards(int s, int t) const { return again(s, t); }

  /// The sequence that takes the time, where there is one.
  void append_sequence(int s, int t, std::int64_t m, std::vector<ChainOp>& out) const;

 private:
  double forward(int s) const { return s + 1 < stages_ ? chain_.forward[s] : 0; }

  std::int64_t at(int s, int t) const { return std::int64_t{s} * stages_ + t; }
  const double* row(int s, int t) const { return time_.data() + row_[at(s, t)] * width_; }

  /// The time of groups s to t where nothing runs twice.
  double once(int s, int t) const { return until_[t + 1] - until_[s] + (back_[t + 1] - back_[s]); }
  double again(int s, int j) const { return until_[j] - until_[s]; }

  double checkpointed(int s, int j, int t, std::int64_t m) const {
    return (row(j, t)[m - chain_.input[j]] + row(s, j - 1)[m]) + again(s, j);
  }
  double kept(int s, int t, std::int64_t m) const {
    return (chain_.forward[s] + chain_.backward[s]) + row(s + 1, t)[m - chain_.saved[s]];
  }

  void fill(int s, int t);
  /// The same of a stretch that has a row of its own.
  void append_first(int s, int t, std::int64_t m, std::vector<ChainOp>& out) const;

  const RecomputeChain& chain_;
  const LeastMemory<std::int64_t>& least_;
  int stages_;
  std::int64_t width_;
  LikeStretches like_;
  std::vector<std::int64_t> row_;  // of s to t, in `time_`
  std::vector<double> time_;
  std::vector<double> until_, back_;  // [s] forwards and backwards of those in front of s
};

}  // namespace trainyard
