#include "app/choose_rotor.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "app/analytic_step.h"
#include "app/rotor_text.h"
#include "engine/base/readable.h"
#include "engine/passes/chain_groups.h"
#include "engine/passes/recompute_regions.h"
#include "engine/recompute/rotor.h"
#include "engine/recompute/rotor_in_flight.h"
#include "engine/recompute/sized_chain.h"
#include "engine/schedule/schedule_timing.h"
#include "study/compile_study.h"
#include "study/study_origin.h"

namespace trainyard {

namespace {

constexpr const char *kSequencesKey = "recompute.sequences", *kMethodKey = "recompute.method";
constexpr int kMostTries = 12;      // Programs, until what rotor may take is what there is
constexpr int kParts = 16;          // of what all takes: budgets whose plans larger ones look at
constexpr double kMoreRoom = 1.25;  // of what there is: rotor's groups may take more than Programs
constexpr double kStep = 0.02;      // of what rotor may take, at least, where that is too much
constexpr double kNear = 0.002;     // of the budget
constexpr double kMostSteps = 3e8;  // of a rotor table: a third of a second
constexpr std::int64_t kLeastSlots = 500, kMostSlots = 4'000;

using Sequences = std::vector<std::vector<ChainOp>>;

std::vector<ChainOp> keeping_all(int groups) {
  std::vector<ChainOp> out;
  out.reserve(2 * groups + 1);
  for (int g = 0; g < groups; ++g) out.push_back({ChainOp::Kind::kForwardSaving, g});
  out.push_back({ChainOp::Kind::kLoss, groups});
  for (int g = groups; g-- > 0;) out.push_back({ChainOp::Kind::kBackward, g});
  return out;
}

class RotorChooser {
 public:
  /// `base`: of what `keeps` says. `whole`: [stage] that keep all whatever the others do, for their
  /// ranks have room for it.
  RotorChooser(const Prepared& prepared, const Study& study, RotorBase& base, Compiler& compiler,
               Bytes budget, Keeps keeps, std::vector<bool> whole)
      : prepared_(prepared),
        study_(study),
        compiler_(compiler),
        base_(base),
        budget_(budget),
        keeps_(keeps),
        keep_all_(std::move(whole)) {}

  RotorChoice run() {
    study_.recompute.sequences.clear();
    for (const auto& groups : base_.groups.of_stage)
      chosen_.push_back(keeping_all(static_cast<int>(groups.size())));
    keep_all_.resize(chosen_.size(), keeps_ == Keeps::kAll);
    bool fits = true;
    for (const MemoryPeak& peak : base_.whole) fits = fits && peak.total <= budget_;
    if (!fits) {
      make_ranks();
      search();
    }
    const Program& program = program_with(chosen_);
    const auto peaks = peaks_of(prepared_, study_, program);
    RotorChoice out;
    for (const MemoryPeak& peak : base_.whole) out.whole = std::max(out.whole, peak.total);
    out.has_cores = !attention_cores(base_.training).empty();
    for (const MemoryPeak& peak : peaks) out.peak = std::max(out.peak, peak.total);
    out.fits = out.peak <= budget_;
    out.recompute = study_.recompute;
    if (out.fits) out.step = simulated_step(prepared_, study_, program);
    for (std::size_t stage = 0; stage < chosen_.size(); ++stage) {
      chosen_[stage] = as_kept(std::move(chosen_[stage]), stage);
      const auto rank = base_.log.schedule.rank_of(static_cast<int>(stage));
      out.has_room.push_back(base_.whole[rank].total <= budget_);
    }
    out.lines = rotor_text({base_.training, base_.groups, base_.chains, chosen_, base_.log.schedule,
                            base_.whole, peaks, budget_});
    return out;
  }

 private:
  /// The stages of one pipeline rank.
  struct Rank {
    std::vector<std::int32_t> stages;
    std::optional<RotorInFlight> rotor;
    double room = 0, low = 0, high = 0;  // bytes that rotor may take
    double least = 0;                    // for which it has sequences; 0: not known
    bool fits = false;                   // sequences at `low` do
    bool done = false;
  };

  void make_ranks() {
    const Numbered<int> microbatches = stages_in_flight(base_.log.schedule);
    std::vector<std::vector<ChainInFlight>> chains(base_.whole.size());
    double all = 1, needed = 1;  // by the rank that takes most, of those that have to do with less
    int groups = 1;
    for (std::size_t r = 0; r < base_.whole.size(); ++r) {
      Rank& rank = ranks_.emplace_back();
      const MemoryPeak& peak = base_.whole[r];
      for (std::int32_t stage = 0; stage < base_.training.num_stages; ++stage) {
        if (base_.log.schedule.rank_of(stage) != static_cast<int>(r)) continue;
        rank.stages.push_back(stage);
        chains[r].push_back({base_.chains[stage], microbatches[stage]});
        groups = std::max(groups, base_.chains[stage].num_groups());
        rank.done = peak.total <= budget_ || (keep_all_[stage] && keeps_ == Keeps::kAllButCores);
      }
      const auto held = static_cast<double>(peak.total - peak.activations);
      rank.room = std::max(static_cast<double>(budget_) - held, 1.0);
      const double least = 2 * least_of(chains[r]);
      all = std::max({all, static_cast<double>(peak.activations) * kMoreRoom, least * kMoreRoom});
      if (!rank.done) needed = std::max({needed, rank.room * kMoreRoom, least * kMoreRoom});
    }
    const auto slots = std::clamp(static_cast<std::int64_t>(kMostSteps / rotor_steps(groups, 1)),
                                  kLeastSlots, kMostSlots);
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      ranks_[r].high = table_size(all, needed);
      if (!ranks_[r].done) grow_until_possible(ranks_[r], chains[r], slots);
    }
  }

  /// The memory of tables: what all takes, halved while that is enough, so that neither ranks nor
  /// budgets have tables of their own.
  static double table_size(double all, double needed) {
    while (all / 2 >= needed) all /= 2;
    return all;
  }

  /// What one microbatch takes at least, and the inputs of the others.
  static double least_of(const std::vector<ChainInFlight>& chains) {
    double sum = 0;
    for (const auto& [chain, microbatches] : chains)
      sum += least_memory(chain) + chain.input[0] * (microbatches - 1);
    return sum;
  }

  void grow_until_possible(Rank& rank, const std::vector<ChainInFlight>& chains,
                           std::int64_t slots) {
    rank.rotor.emplace(chains, rank.high, slots, base_.tables);
    while (!rank.rotor->solve(rank.high)) {
      rank.high *= 2;
      rank.rotor.emplace(chains, rank.high, slots, base_.tables);
    }
  }

  /// Where no sequences fit what there is by what groups take, those that take least are tried.
  static void find_least(Rank& rank, double too_little) {
    double least = too_little, enough = rank.high;
    while (enough - least > kNear * enough) {
      const double middle = (least + enough) / 2;
      (rank.rotor->solve(middle) ? enough : least) = middle;
    }
    rank.least = rank.low = rank.room = enough;
  }

  /// Peaks of ranks are of their own stages alone, and so all ranks are brought near at once.
  void search() {
    Sequences tried = chosen_;
    for (int n = 0; n < kMostTries && any_open(); ++n) {
      for (Rank& rank : ranks_) {
        if (rank.done || put_sequences(rank, rank.room, tried)) continue;
        find_least(rank, rank.room);
        put_sequences(rank, rank.least, tried);
      }
      const auto peaks = peaks_of(prepared_, study_, program_with(tried));
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        if (!ranks_[r].done) learn(ranks_[r], peaks[r].total, tried);
      }
    }
    for (Rank& rank : ranks_) {
      if (!rank.rotor || rank.fits) continue;
      if (rank.least == 0) find_least(rank, 0);
      put_sequences(rank, rank.least, chosen_);
    }
  }

  bool any_open() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return !rank.done; });
  }

  /// Whether there are any that fit so much by what groups take.
  static bool put_sequences(const Rank& rank, double room, Sequences& out) {
    auto found = rank.rotor->solve(room);
    for (std::size_t s = 0; found && s < rank.stages.size(); ++s)
      out[rank.stages[s]] = std::move((*found)[s]);
    return found.has_value();
  }

  void learn(Rank& rank, Bytes peak, const Sequences& tried) {
    const double beyond = static_cast<double>(peak - budget_);
    const double room = rank.room;
    if (beyond <= 0) {
      rank.fits = true;
      rank.low = room;
      for (const std::int32_t stage : rank.stages) chosen_[stage] = tried[stage];
    } else {
      rank.high = room;
    }
    double next = room - beyond;
    // Sequences change in steps: less than one leaves the peak where it is.
    if (beyond > 0) next = room - std::max(1.25 * beyond, kStep * room);
    if (next <= rank.low || next >= rank.high) next = (rank.low + rank.high) / 2;
    const bool at_least = beyond > 0 && room <= rank.least;
    const double near = kNear * static_cast<double>(budget_);
    rank.done = at_least || (rank.fits && (rank.high - rank.low < near || std::abs(beyond) < near));
    rank.room = next;
  }

  std::vector<ChainOp> as_kept(std::vector<ChainOp> sequence, std::size_t stage) const {
    for (ChainOp& op : sequence)
      op.but_cores = !keep_all_[stage] && op.kind == ChainOp::Kind::kForwardSaving;
    return sequence;
  }

  const Program& program_with(const Sequences& sequences) {
    study_.recompute.sequences.clear();
    for (std::size_t stage = 0; stage < sequences.size(); ++stage)
      study_.recompute.sequences.push_back(to_text(as_kept(sequences[stage], stage)));
    PassLog log;
    const Program* program = program_of(prepared_, study_, log, compiler_);
    check(program != nullptr, "a Program without recomputation has one with it");
    return *program;
  }

  const Prepared& prepared_;
  Study study_;
  Compiler& compiler_;
  RotorBase& base_;
  Bytes budget_;
  Keeps keeps_;
  std::vector<bool> keep_all_;
  std::vector<Rank> ranks_;
  Sequences chosen_;  // [stage]
};

/// Whether something with this peak, and this step where it fits, is to be taken instead.
bool is_better(bool fits, Seconds step, Bytes peak, const RotorChoice& than) {
  if (fits != than.fits) return fits;
  return fits ? step < than.step : peak < than.peak;
}

}  // namespace

bool leaves_to_rotor(const Study& study) {
  return study.recompute.method == RecomputeConfig::Method::kRotor &&
         study.recompute.sequences.empty();
}

bool RotorChoice::recomputes() const {
  const std::vector<std::string>& sequences = recompute.sequences;
  return sequences.empty() ||
         std::any_of(sequences.begin(), sequences.end(), [](const std::string& sequence) {
           return sequence.find("CF") != std::string::npos ||
                  sequence.find("Fs") != std::string::npos;
         });
}

RotorPlans::RotorPlans(const Prepared& prepared, const Study& study)
    : prepared_(prepared),
      study_(study) {}

std::optional<Infeasible> RotorPlans::prepare() {
  auto base = make_rotor_base(prepared_, study_, Keeps::kAll);
  if (auto* reason = std::get_if<Infeasible>(&base)) return std::move(*reason);
  all_.emplace(std::get<RotorBase>(std::move(base)));
  return std::nullopt;
}

RotorChoice RotorPlans::within(Bytes budget) {
  auto best = RotorChooser(prepared_, study_, *all_, compiler_, budget, Keeps::kAll, {}).run();
  if (best.fits && !best.recomputes()) return best;
  if (best.has_cores) {
    if (!but_cores_) {
      auto base = make_rotor_base(prepared_, study_, Keeps::kAllButCores);
      check(std::holds_alternative<RotorBase>(base),
            "cores of attention do not decide whether there is a Program");
      but_cores_.emplace(std::get<RotorBase>(std::move(base)));
    }
    auto other = RotorChooser(prepared_, study_, *but_cores_, compiler_, budget,
                              Keeps::kAllButCores, best.has_room)
                     .run();
    if (is_better(other.fits, other.step, other.peak, best)) best = std::move(other);
  }
  if (!rivals_) rivals_.emplace(prepared_, study_, compiler_, best.has_cores);
  for (RotorRival& rival : rivals_->within(budget)) {
    const bool fits = rival.peak <= budget;
    if (!is_better(fits, rival.step, rival.peak, best)) continue;
    best.lines = {"recompute rotor: " + rival.name + ", takes least within " + bytes_text(budget) +
                  " a device; its rank that needs most takes " + bytes_text(rival.peak)};
    best.recompute = std::move(rival.recompute);
    best.peak = rival.peak;
    best.fits = fits;
    best.step = rival.step;
  }
  return best;
}

RotorChoice RotorPlans::within_or_less(Bytes budget) {
  RotorChoice best = within(budget);
  if (!best.fits || !best.recomputes()) return best;
  const Bytes whole = best.whole;
  for (int parts = kParts - 1; parts > 0; --parts) {
    const Bytes less = whole * parts / kParts;
    if (less >= budget) continue;
    RotorChoice other = within(less);
    if (!other.fits) break;
    if (other.step < best.step) best = std::move(other);
  }
  return best;
}

void choose_sequences(Prepared& prepared) {
  Study& study = prepared.study;
  RecomputeConfig& recompute = study.recompute;
  if (!leaves_to_rotor(study)) return;
  const bool said = recompute.memory_budget > 0;
  const Bytes budget = said ? recompute.memory_budget : capacity_of(prepared);
  RotorPlans plans(prepared, study);
  if (const auto reason = plans.prepare()) throw plan_error(study, *reason);
  RotorChoice choice = plans.within_or_less(budget);
  if (!choice.fits) {
    throw plan_error(study,
                     {"no recomputation fits " + bytes_text(budget) + " a device" +
                          (said ? "" : ", which is what it has") +
                          "; the smallest budget that was found to work is " +
                          std::to_string(choice.peak) + " B (" + bytes_text(choice.peak) + ")",
                      said ? "recompute.memory_budget" : "recompute"});
  }
  const bool sequences = !choice.recompute.sequences.empty();
  study.origins[sequences ? kSequencesKey : kMethodKey] =
      derived_origin("rotor: the fastest within " + bytes_text(budget));
  recompute = std::move(choice.recompute);
  study.planned.insert(study.planned.end(), choice.lines.begin(), choice.lines.end());
}

}  // namespace trainyard
