#include "engine/recompute/rotor_in_flight.h"

#include <algorithm>
#include <utility>

#include "engine/base/units.h"
#include "engine/recompute/like_stretches.h"
#include "engine/recompute/sized_chain.h"

namespace trainyard {

namespace {

constexpr int kShares = 64;  // of what could be kept, that are tried

bool are_alike(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), are_alike_times);
}

bool are_alike(const SizedChain& a, const SizedChain& b) {
  return a.input == b.input && a.saved == b.saved && a.forward_extra == b.forward_extra &&
         a.backward_extra == b.backward_extra && are_alike(a.forward, b.forward) &&
         are_alike(a.backward, b.backward);
}

}  // namespace

ChainTable::ChainTable(RecomputeChain slots, std::int64_t beside)
    : chain(std::move(slots)),
      least(chain),
      table(chain, least, beside) {}

std::shared_ptr<const ChainTable> RotorTables::of(const SizedChain& chain, double slot,
                                                  std::int64_t slots) {
  for (const Known& one : known_) {
    if (one.slot == slot && one.slots == slots && are_alike(one.chain, chain)) return one.table;
  }
  auto table = std::make_shared<const ChainTable>(in_slots(chain, slot, Rounding::kUp), slots);
  known_.push_back({chain, slot, slots, table});
  return table;
}

std::int64_t RotorInFlight::Stage::all() const {
  std::int64_t sum = chain().input[0];
  for (const std::int64_t saved : chain().saved) sum += saved;
  return sum;
}

/// Sequences that keep `share` at most behind their forward, in `room` slots for a microbatch.
struct RotorInFlight::First {
  First(const Stage& of, std::int64_t may_keep, std::int64_t may_take)
      : stage(of),
        share(may_keep),
        room(may_take),
        groups(of.chain().num_groups()),
        most_used(of.chain().input),
        times((groups + 1) * (share + 1), kForever) {
    find_most_used();
    for (std::int64_t used = 0; used <= std::min(share, room); ++used) {
      if (stage.chain().backward_extra[groups] <= room - used) at(groups, used) = 0;
    }
    for (int s = groups - 1; s >= 0; --s) fill(s);
  }

  double& at(int s, std::int64_t used) { return times[s * (share + 1) + used]; }
  double at(int s, std::int64_t used) const { return times[s * (share + 1) + used]; }

  void find_most_used() {
    const RecomputeChain& chain = stage.chain();
    std::int64_t most = most_used[0];  // in front of any group so far
    for (int s = 0; s < groups; ++s) {
      const std::int64_t kept = most_used[s] + chain.saved[s];
      most_used[s + 1] = std::max(kept, most + chain.input[s + 1]);
      most = std::max(most, most_used[s + 1]);
    }
  }

  double kept(int s, std::int64_t used) const {
    const RecomputeChain& chain = stage.chain();
    const std::int64_t beside = room - used - chain.saved[s];
    const std::int64_t after = used + chain.saved[s];
    if (after > share || beside < chain.forward_extra[s] ||
        beside < chain.input[s + 1] + chain.backward_extra[s])
      return kForever;
    return chain.forward[s] + chain.backward[s] + at(s + 1, after);
  }

  double dropped(int s, int j, std::int64_t used) const {
    const std::int64_t after = used + stage.chain().input[j];
    if (after > share) return kForever;
    return stage.table().forwards(s, j) + at(j, after) + stage.table().time(s, j - 1, room - used);
  }

  /// What a forward that keeps nothing takes, beside what is kept.
  std::int64_t passing(int s, int k) const {
    const RecomputeChain& chain = stage.chain();
    return (k > s ? chain.input[k] : 0) + chain.input[k + 1] + chain.forward_extra[k];
  }

  /// at(s, used) of all `used` that there can be: the least of kept() and of dropped() to every j
  /// that forwards reach, memory innermost, which compilers make vectors of.
  void fill(int s) {
    const std::int64_t last = std::min({share, room, most_used[s]});
    const RotorTable& table = stage.table();
    at_best += stage.chain().forward[s] + stage.chain().backward[s];
    double* const out = &at(s, 0);
    for (std::int64_t used = 0; used <= last; ++used) out[used] = kept(s, used);
    std::int64_t most = 0;  // that a forward in front of j takes
    std::int64_t from = 0;  // with less used, times are shorter than anything from here can be
    for (int j = s + 1; j <= groups; ++j) {
      most = std::max(most, passing(s, j - 1));
      const std::int64_t input = stage.chain().input[j];
      const std::int64_t end = std::min({last, room - most, share - input});
      if (end < 0) continue;
      const double forwards = table.forwards(s, j);
      while (from <= end && out[from] <= (at_best + forwards) * (1 - kRoundedTime)) ++from;
      const double* const behind = &times[j * (share + 1) + input];
      for (std::int64_t used = from; used <= end; ++used)
        out[used] =
            std::min(out[used], forwards + behind[used] + table.time(s, j - 1, room - used));
    }
  }

  std::vector<ChainOp> sequence() const {
    using Kind = ChainOp::Kind;
    std::vector<ChainOp> out;
    std::vector<std::vector<ChainOp>> behind;  // backwards, the last first
    std::int64_t used = stage.chain().input[0];
    for (int s = 0; s < groups;) {
      std::vector<ChainOp>& back = behind.emplace_back();
      if (kept(s, used) <= at(s, used)) {
        out.push_back({Kind::kForwardSaving, s});
        back.push_back({Kind::kBackward, s});
        used += stage.chain().saved[s];
        ++s;
        continue;
      }
      int j = s + 1;
      while (dropped(s, j, used) > at(s, used)) ++j;
      out.push_back({Kind::kForwardFromCheckpoint, s});
      for (int k = s + 1; k < j; ++k) out.push_back({Kind::kForward, k});
      stage.table().append_sequence(s, j - 1, room - used, back);
      used += stage.chain().input[j];
      s = j;
    }
    out.push_back({Kind::kLoss, groups});
    for (auto back = behind.rbegin(); back != behind.rend(); ++back)
      out.insert(out.end(), back->begin(), back->end());
    return out;
  }

  const Stage& stage;
  std::int64_t share, room;
  int groups;
  double at_best = 0;                   // from the group that is filled on, nothing computed again
  std::vector<std::int64_t> most_used;  // [group] in front of it
  std::vector<double> times;
};

RotorInFlight::RotorInFlight(const std::vector<ChainInFlight>& stages, double most,
                             std::int64_t slots, RotorTables& tables)
    : slot_(most / static_cast<double>(slots)),
      most_(slots) {
  for (const ChainInFlight& stage : stages)
    stages_.push_back({tables.of(stage.chain, slot_, slots), stage.microbatches});
}

std::optional<std::vector<std::vector<ChainOp>>> RotorInFlight::solve_alone(
    std::int64_t slots) const {
  const Stage& stage = stages_.front();
  const std::int64_t beside = slots - stage.chain().input[0];
  if (beside < 0 || stage.table().time(beside) == kForever) return std::nullopt;
  std::vector<std::vector<ChainOp>> out(1);
  stage.table().append_sequence(0, stage.chain().num_groups(), beside, out[0]);
  return out;
}

std::optional<std::vector<std::vector<ChainOp>>> RotorInFlight::solve(double memory) const {
  const auto whole =
      static_cast<std::int64_t>(whole_slots(std::max(0.0, memory), slot_, Rounding::kDown));
  const std::int64_t slots = std::min(most_, whole);
  if (stages_.size() == 1 && stages_[0].microbatches == 1) return solve_alone(slots);
  std::optional<std::vector<std::vector<ChainOp>>> best;
  double least = kForever;
  for (int n = 0; n <= kShares; ++n) {
    std::vector<std::int64_t> shares;
    std::int64_t others = 0;
    for (const Stage& stage : stages_) {
      const std::int64_t input = stage.chain().input[0], all = stage.all() - input;
      shares.push_back(input + (all * n + kShares - 1) / kShares);
      others += shares.back() * stage.microbatches;
    }
    double time = 0;
    std::vector<First> firsts;
    for (std::size_t s = 0; s < stages_.size() && time < least; ++s) {
      const std::int64_t room = slots - others + shares[s];
      if (room < shares[s]) {
        time = kForever;
        break;
      }
      firsts.emplace_back(stages_[s], shares[s], room);
      time += std::as_const(firsts.back()).at(0, stages_[s].chain().input[0]);
    }
    if (time >= least) continue;
    least = time;
    best.emplace();
    for (const First& first : firsts) best->push_back(first.sequence());
  }
  return best;
}

}  // namespace trainyard
