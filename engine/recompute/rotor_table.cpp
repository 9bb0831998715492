#include "engine/recompute/rotor_table.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/units.h"

namespace trainyard {

namespace {

/// out[m] = min(out[m], behind[m] + before[m] + forwards), m < count: nearly all of rotor's time.
/// Four at once, as vectors: rows of a table do not overlap.
void take_shorter(double* __restrict out, const double* __restrict behind,
                  const double* __restrict before, double forwards, std::int64_t count) {
  const auto take = [&](std::int64_t m) {
    const double time = (behind[m] + before[m]) + forwards;
    out[m] = time < out[m] ? time : out[m];
  };
  std::int64_t m = 0;
  for (; m + 4 <= count; m += 4) {
    for (int k = 0; k < 4; ++k) take(m + k);
  }
  for (; m < count; ++m) take(m);
}

}  // namespace

RotorTable::RotorTable(const RecomputeChain& chain, const LeastMemory<std::int64_t>& least,
                       std::int64_t slots)
    : chain_(chain),
      least_(least),
      stages_(chain.num_groups() + 1),
      width_(slots + 1),
      like_(chain),
      row_(std::int64_t{stages_} * stages_),
      until_(std::int64_t{stages_} + 1),
      back_(until_.size()) {
  for (int s = 0; s < stages_; ++s) {
    until_[s + 1] = until_[s] + forward(s);
    back_[s + 1] = back_[s] + chain.backward[s];
  }
  // Rows of one s lie together, by t.
  std::int64_t rows = 0;
  for (int s = 0; s < stages_; ++s) {
    for (int t = s; t < stages_; ++t) {
      const int first = like_.first(s, t);
      row_[at(s, t)] = first == s ? rows++ : row_[at(first, first + t - s)];
    }
  }
  time_.assign(rows * width_, kForever);
  for (int length = 0; length < stages_; ++length) {
    for (int s = 0; s + length < stages_; ++s) {
      if (like_.first(s, s + length) == s) fill(s, s + length);
    }
  }
}

void RotorTable::append_sequence(int s, int t, std::int64_t m, std::vector<ChainOp>& out) const {
  // As the row was filled: what it was filled from adds up to its times, to the last bit.
  const int first = like_.first(s, t);
  if (first == s) return append_first(s, t, m, out);
  const auto begin = std::ssize(out);
  append_first(first, first + t - s, m, out);
  for (auto op = out.begin() + begin; op != out.end(); ++op) op->group += s - first;
}

void RotorTable::append_first(int s, int t, std::int64_t m, std::vector<ChainOp>& out) const {
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

void RotorTable::fill(int s, int t) {
  double* const out = time_.data() + row_[at(s, t)] * width_;
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
    if (first < until)
      take_shorter(out + first, behind + (first - input), before + first, forwards, until - first);
  }
}

}  // namespace trainyard
