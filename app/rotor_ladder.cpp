#include "app/rotor_ladder.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "app/analytic_step.h"
#include "app/rotor_text.h"
#include "engine/base/error.h"
#include "engine/recompute/like_stretches.h"
#include "engine/recompute/merge_groups.h"
#include "engine/recompute/rotor.h"
#include "engine/recompute/sized_chain.h"
#include "engine/schedule/schedule_timing.h"
#include "study/compile_study.h"

namespace trainyard {

namespace {

constexpr int kRungs = 32;          // between what all takes and the least
constexpr double kNearer = 1.5;     // the power of their places
constexpr int kMoreRungs = 8;       // below: what groups take by themselves is no Program's peak
constexpr double kBeyond = 1.03;    // of a budget: groups by themselves may take more than Programs
constexpr double kMoreRoom = 1.25;  // of what there is: rotor's groups may take more than Programs
constexpr double kNear = 0.002;     // of the least memory
constexpr double kMostSteps = 3e8;  // of a rotor table: a third of a second
constexpr std::int64_t kLeastSlots = 500, kMostSlots = 4'000;
constexpr double kLongSteps = 1e9;  // of a table in the fewest slots: chains that take more are
constexpr int kMostGroups = 200;    // merged to so many groups

/// What one microbatch takes at least, and the inputs of the others.
double least_of(const std::vector<ChainInFlight>& chains) {
  double sum = 0;
  for (const auto& [chain, microbatches] : chains)
    sum += least_memory(chain) + chain.input[0] * (microbatches - 1);
  return sum;
}

/// The chain, or one of fewer groups where its table would take too long; then with `ends`.
SizedMergedChain searched_chain(const SizedChain& chain) {
  const bool is_long =
      chain.num_groups() > kMostGroups && LikeStretches(chain).cuts() * kLeastSlots > kLongSteps;
  return is_long ? merge_groups(chain, kMostGroups) : SizedMergedChain{chain, {}};
}

}  // namespace

RotorLadder::RotorLadder(const Prepared& prepared, const Study& study, RotorBase& base,
                         Compiler& compiler, Keeps keeps, const std::vector<MemoryPeak>& whole)
    : prepared_(prepared),
      study_(study),
      base_(base),
      compiler_(compiler),
      keeps_(keeps),
      whole_(whole) {
  const Numbered<int> microbatches = stages_in_flight(base_.log.schedule);
  int groups = 1;
  for (std::size_t r = 0; r < base_.whole.size(); ++r) {
    Rank& rank = ranks_.emplace_back();
    for (std::int32_t stage = 0; stage < base_.training.num_stages; ++stage) {
      if (base_.log.schedule.rank_of(stage) != static_cast<int>(r)) continue;
      rank.stages.push_back(stage);
      SizedMergedChain searched = searched_chain(base_.chains[stage]);
      groups = std::max(groups, searched.chain.num_groups());
      rank.chains.push_back({std::move(searched.chain), microbatches[stage]});
      rank.ends.push_back(std::move(searched.ends));
    }
    const MemoryPeak& peak = base_.whole[r];
    rank.held = static_cast<double>(peak.total - peak.activations);
    rank.least = least_of(rank.chains);
    rank.whole = static_cast<double>(whole_[r].total);
    all_ = std::max(
        {all_, static_cast<double>(peak.activations) * kMoreRoom, 2 * rank.least * kMoreRoom});
  }
  slots_ = std::clamp(static_cast<std::int64_t>(kMostSteps / rotor_steps(groups, 1)), kLeastSlots,
                      kMostSlots);
  set_up_rungs();
}

double RotorLadder::most() const {
  double most = 0;
  for (const Rank& rank : ranks_) most = std::max(most, rank.whole);
  return most;
}

double RotorLadder::least() const {
  double least = 0;
  for (const Rank& rank : ranks_)
    least = std::max(least, std::min(rank.whole, rank.held + rank.least));
  return least;
}

/// From what all takes to the least that groups may, nearer to each other where there is less, and
/// below it in parts; beside them what the device has, which most budgets are.
void RotorLadder::set_up_rungs() {
  const double whole = most(), bottom = least(), range = whole - bottom;
  const auto has = static_cast<double>(capacity_of(prepared_));
  std::vector<double> memory;
  for (int n = kRungs; n > 0; --n)
    memory.push_back(bottom + range * std::pow(static_cast<double>(n) / kRungs, kNearer));
  for (int n = 0; n <= kMoreRungs; ++n) memory.push_back(bottom - range * n / kRungs);
  if (has < whole && has > memory.back()) memory.push_back(has);
  memory.push_back(0);  // what takes least on every rank, where groups tell nothing apart
  std::sort(memory.begin(), memory.end(), std::greater<>());
  for (const double one : memory) rungs_.emplace_back().memory = one;
  rungs_.back().last = true;
}

int RotorLadder::first_within(Bytes budget) const {
  int n = 0;
  while (!rungs_[n].last && rungs_[n].memory > static_cast<double>(budget) * kBeyond) ++n;
  return n;
}

bool RotorLadder::may_keep(Bytes budget) const {
  return least() <= static_cast<double>(budget) * kBeyond;
}

std::vector<ChainOp> RotorLadder::keeping_all(std::int32_t stage) const {
  const int groups = base_.chains[stage].num_groups();
  std::vector<ChainOp> out;
  out.reserve(2 * groups + 1);
  for (int g = 0; g < groups; ++g) out.push_back({ChainOp::Kind::kForwardSaving, g});
  out.push_back({ChainOp::Kind::kLoss, groups});
  for (int g = groups; g-- > 0;) out.push_back({ChainOp::Kind::kBackward, g});
  return out;
}

/// Tables are of what all takes, halved while that is enough, so that ranks and rungs share them.
double RotorLadder::table_size(double memory) const {
  double size = all_;
  while (size / 2 >= memory) size /= 2;
  return size;
}

RotorInFlight RotorLadder::rotor(const Rank& rank, double size) {
  return {rank.chains, size, slots_, base_.tables};
}

/// Where no sequences fit what there is by what groups take, those that take least.
const std::vector<std::vector<ChainOp>>& RotorLadder::smallest(Rank& rank) {
  if (rank.smallest) return *rank.smallest;
  double enough = table_size(2 * rank.least * kMoreRoom), least = 0;
  auto table = rotor(rank, enough);
  while (!table.solve(enough)) {
    least = enough;
    enough *= 2;
    table = rotor(rank, enough);
  }
  while (enough - least > kNear * enough) {
    const double middle = (least + enough) / 2;
    (table.solve(middle) ? enough : least) = middle;
  }
  rank.smallest = table.solve(enough);
  return *rank.smallest;
}

void RotorLadder::put(const Rank& rank, std::vector<std::vector<ChainOp>> found,
                      RotorRung& rung) const {
  for (std::size_t s = 0; s < rank.stages.size(); ++s) {
    std::vector<ChainOp>& sequence = rung.sequences[rank.stages[s]] =
        rank.ends[s].empty() ? std::move(found[s]) : whole_sequence(rank.ends[s], found[s]);
    for (ChainOp& op : sequence)
      op.but_cores = keeps_ == Keeps::kAllButCores && op.kind == ChainOp::Kind::kForwardSaving;
  }
}

RotorRung& RotorLadder::rung(int n) {
  RotorRung& rung = rungs_[n];
  if (rung.sequences.empty()) find_sequences(rung, std::vector<double>(ranks_.size(), 0.0));
  return rung;
}

void RotorLadder::find_sequences(RotorRung& rung, const std::vector<double>& beyond) {
  rung.sequences.resize(base_.chains.size());
  bool open = false, all = true;  // some rank has more than the least; all ranks keep all
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    Rank& rank = ranks_[r];
    if (rank.whole <= rung.memory) {
      for (const std::int32_t stage : rank.stages) rung.sequences[stage] = keeping_all(stage);
      continue;
    }
    const double room = std::max(rung.memory - rank.held - beyond[r], 1.0);
    auto found = rotor(rank, table_size(room * kMoreRoom)).solve(room);
    all = false;
    open = open || found.has_value();
    put(rank, found ? std::move(*found) : smallest(rank), rung);
  }
  rung.last = rung.last || (!open && !all);
  std::vector<double> again;
  for (std::size_t stage = 0; stage < rung.sequences.size(); ++stage) {
    const std::vector<double>& forward = base_.chains[stage].forward;
    Seconds runs = 0;
    for (const ChainOp& op : rung.sequences[stage]) {
      if (op.group < std::ssize(forward) && op.kind != ChainOp::Kind::kBackward)
        runs += forward[op.group];
    }
    const Seconds once = std::accumulate(forward.begin(), forward.end(), 0.0);
    again.push_back(once > 0 ? runs / once - 1 : 0);
  }
  rung.predicted = predict(again);
}

Seconds RotorLadder::predict(const std::vector<double>& again) const {
  Numbered<ActionDurations> durations = base_.durations;
  for (std::size_t stage = 0; stage < again.size(); ++stage) {
    ActionDurations& one = durations.begin()[stage];
    one.backward += again[stage] * one.forward;
    one.input += again[stage] * one.forward;
  }
  const auto timed = time_schedule(base_.log.schedule, durations, 0);
  check(std::holds_alternative<ScheduleTiming>(timed), "a Program's schedule can run");
  return std::get<ScheduleTiming>(timed).makespan;
}

RecomputeConfig RotorLadder::recompute(const RotorRung& rung) const {
  RecomputeConfig out = study_.recompute;
  out.sequences.clear();
  for (const auto& sequence : rung.sequences) out.sequences.push_back(to_text(sequence));
  return out;
}

const Program& RotorLadder::make_program(RotorRung& rung) {
  const Program* program = program_with(recompute(rung), prepared_, study_, compiler_);
  check(program != nullptr, "a Program without recomputation has one with it");
  if (rung.peaks.empty()) {
    rung.peaks = peaks_of(prepared_, study_, *program);
    rung.peak = largest_peak(rung.peaks);
  }
  return *program;
}

/// Ranks whose Program takes less than the rung has get the rest, those that take more give it.
const Program& RotorLadder::compile_rung(RotorRung& rung) {
  const bool is_new = rung.peaks.empty();
  const Program& program = make_program(rung);
  if (!is_new) return program;
  RotorRung other;
  other.memory = rung.memory;
  other.last = rung.last;
  std::vector<double> beyond;
  for (const MemoryPeak& peak : rung.peaks)
    beyond.push_back(static_cast<double>(peak.total) - rung.memory);
  find_sequences(other, beyond);
  if (other.sequences == rung.sequences) return program;
  const Program& corrected = make_program(other);
  const bool keeps = static_cast<double>(other.peak) <= rung.memory || other.peak <= rung.peak;
  if (!keeps) return make_program(rung);
  rung = std::move(other);
  return corrected;
}

std::vector<std::string> RotorLadder::text(const RotorRung& rung, Bytes budget) const {
  std::vector<std::size_t> searched(base_.chains.size());
  for (const Rank& rank : ranks_) {
    for (std::size_t s = 0; s < rank.stages.size(); ++s)
      searched[rank.stages[s]] = rank.ends[s].size();
  }
  return rotor_text({base_.training, base_.groups, base_.chains, rung.sequences, searched,
                     base_.log.schedule, base_.whole, rung.peaks, budget});
}

}  // namespace trainyard
