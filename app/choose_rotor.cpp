#include "app/choose_rotor.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "app/analytic_step.h"
#include "app/rotor_rivals.h"
#include "app/rotor_text.h"
#include "engine/base/readable.h"
#include "engine/passes/chain_groups.h"
#include "engine/passes/recompute_regions.h"
#include "engine/planner/stage_chain.h"
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

/// The name of a value without the size of the microbatches that it is of.
std::string tensor_name(const std::string& name) {
  const std::size_t at = name.rfind('@');
  const bool sized = at != std::string::npos && name.size() > 3 && name.ends_with("seq");
  return sized ? name.substr(0, at) : name;
}

/// [stage] when ops of one forward have ended, from its begin on.
Numbered<EndTimes> forward_ends(const Program& program, const Trace& trace, int stages) {
  Numbered<EndTimes> out(stages);
  Numbered<std::optional<std::pair<Microbatch, Seconds>>> call(stages);
  for (const RankTrace& rank : trace.ranks) {
    for (const TraceRow& row : rank.rows) {
      const Segment& segment = program.segments[row.segment];
      if (segment.phase != Phase::kForward || segment.stage < 0) continue;
      auto& first = call[segment.stage];
      if (!first) first.emplace(row.mb, row.start);
      if (first->first != row.mb) continue;
      const ProgramOp& op = segment.ops[row.op];
      for (const Operand& write : op.writes)
        out[segment.stage][tensor_name(program.values[write.value].name)] = row.end - first->second;
    }
  }
  return out;
}

/// What groups keep that are kept.
enum class Keeps : std::uint8_t { kAll, kAllButCores };

class RotorChooser {
 public:
  /// `whole`: [stage] that keep all whatever the others do, for their ranks have room for it.
  RotorChooser(const Prepared& prepared, Study study, Bytes budget, Keeps keeps,
               std::vector<bool> whole)
      : prepared_(prepared),
        study_(std::move(study)),
        budget_(budget),
        keeps_(keeps),
        keep_all_(std::move(whole)) {}

  std::variant<RotorChoice, Infeasible> run() {
    study_.recompute.sequences.clear();
    if (auto reason = compile_whole()) return *reason;
    for (const auto& groups : groups_.of_stage)
      chosen_.push_back(keeping_all(static_cast<int>(groups.size())));
    keep_all_.resize(chosen_.size(), keeps_ == Keeps::kAll);
    bool fits = true;
    for (const MemoryPeak& peak : whole_) fits = fits && peak.total <= budget_;
    if (!fits) {
      make_ranks();
      search();
    }
    const Program program = program_with(chosen_);
    const auto peaks = peaks_of(prepared_, study_, program);
    RotorChoice out;
    for (const MemoryPeak& peak : whole_) out.whole = std::max(out.whole, peak.total);
    out.has_cores = !attention_cores(training_).empty();
    for (const MemoryPeak& peak : peaks) out.peak = std::max(out.peak, peak.total);
    out.fits = out.peak <= budget_;
    out.recompute = study_.recompute;
    if (out.fits) out.step = simulated_step(prepared_, study_, program);
    for (std::size_t stage = 0; stage < chosen_.size(); ++stage) {
      chosen_[stage] = as_kept(std::move(chosen_[stage]), stage);
      const auto rank = log_.schedule.rank_of(static_cast<int>(stage));
      out.has_room.push_back(whole_[rank].total <= budget_);
    }
    out.lines =
        rotor_text({training_, groups_, chains_, chosen_, log_.schedule, whole_, peaks, budget_});
    return out;
  }

 private:
  /// The stages of one pipeline rank.
  struct Rank {
    std::vector<std::int32_t> stages;
    std::unique_ptr<RotorInFlight> rotor;
    double room = 0, low = 0, high = 0;  // bytes that rotor may take
    double least = 0;                    // for which it has sequences; 0: not known
    bool fits = false;                   // sequences at `low` do
    bool done = false;
  };

  std::optional<Infeasible> compile_whole() {
    Study none = study_;
    none.recompute = {};
    if (keeps_ == Keeps::kAllButCores) none.recompute.method = RecomputeConfig::Method::kSelective;
    CompileOptions options;
    bool seen = false;
    options.behind_pass = [&](const std::string& pass, PassResult result) {
      if (pass != "recompute" || std::exchange(seen, true)) return;
      training_ = *std::get<TrainingGraph*>(result);
    };
    const auto compiled = compile(prepared_.model, none, prepared_.software, log_, options);
    if (const auto* reason = std::get_if<Infeasible>(&compiled)) return *reason;
    const auto& program = std::get<Program>(compiled);
    groups_ = chain_groups(training_);
    whole_ = peaks_of(prepared_, none, program);
    const Trace trace = step_of(prepared_, none, program, true);
    const auto ends = forward_ends(program, trace, training_.num_stages);
    const double factor =
        fixed_memory(prepared_.software, study_.training.precision).activation_factor;
    for (std::int32_t stage = 0; stage < training_.num_stages; ++stage)
      chains_.push_back(stage_chain(training_, groups_, stage, ends[stage], factor));
    return std::nullopt;
  }

  void make_ranks() {
    const Numbered<int> microbatches = stages_in_flight(log_.schedule);
    for (std::size_t r = 0; r < whole_.size(); ++r) {
      Rank rank;
      const MemoryPeak& peak = whole_[r];
      std::vector<ChainInFlight> chains;
      int groups = 1;
      for (std::int32_t stage = 0; stage < training_.num_stages; ++stage) {
        if (log_.schedule.rank_of(stage) != static_cast<int>(r)) continue;
        rank.stages.push_back(stage);
        chains.push_back({chains_[stage], microbatches[stage]});
        groups = std::max(groups, chains_[stage].num_groups());
        rank.done = peak.total <= budget_ || (keep_all_[stage] && keeps_ == Keeps::kAllButCores);
      }
      const auto held = static_cast<double>(peak.total - peak.activations);
      const double there = static_cast<double>(budget_) - held;
      rank.room = std::max(there, 1.0);
      rank.high = std::max(rank.room, 2 * least_of(chains)) * kMoreRoom;
      const double per_slot = rotor_steps(groups, 1);
      const auto slots =
          std::clamp(static_cast<std::int64_t>(kMostSteps / per_slot), kLeastSlots, kMostSlots);
      if (!rank.done) {
        grow_until_possible(rank, chains, slots);
      }
      ranks_.push_back(std::move(rank));
    }
  }

  /// What one microbatch takes at least, and the inputs of the others.
  static double least_of(const std::vector<ChainInFlight>& chains) {
    double sum = 0;
    for (const auto& [chain, microbatches] : chains)
      sum += least_memory(chain) + chain.input[0] * (microbatches - 1);
    return sum;
  }

  static void grow_until_possible(Rank& rank, const std::vector<ChainInFlight>& chains,
                                  std::int64_t slots) {
    rank.rotor = std::make_unique<RotorInFlight>(chains, rank.high, slots);
    while (!rank.rotor->solve(rank.high)) {
      rank.high *= 2;
      rank.rotor = std::make_unique<RotorInFlight>(chains, rank.high, slots);
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

  Program program_with(const Sequences& sequences) {
    study_.recompute.sequences.clear();
    for (std::size_t stage = 0; stage < sequences.size(); ++stage)
      study_.recompute.sequences.push_back(to_text(as_kept(sequences[stage], stage)));
    PassLog log;
    auto program = program_of(prepared_, study_, log);
    check(program.has_value(), "a Program without recomputation has one with it");
    return *std::move(program);
  }

  const Prepared& prepared_;
  Study study_;
  Bytes budget_;
  Keeps keeps_;
  std::vector<bool> keep_all_;
  PassLog log_;
  TrainingGraph training_;  // without recomputation
  ChainGroups groups_;
  std::vector<SizedChain> chains_;  // [stage]
  std::vector<MemoryPeak> whole_;   // without recomputation
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

std::variant<RotorChoice, Infeasible> choose_rotor(const Prepared& prepared, Study study,
                                                   Bytes budget) {
  auto all = RotorChooser(prepared, study, budget, Keeps::kAll, {}).run();
  if (std::holds_alternative<Infeasible>(all)) return all;
  auto best = std::get<RotorChoice>(std::move(all));
  if (best.fits && !best.recomputes()) return best;
  const bool cores = best.has_cores;
  if (cores) {
    auto other = RotorChooser(prepared, study, budget, Keeps::kAllButCores, best.has_room).run();
    auto* const but_cores = std::get_if<RotorChoice>(&other);
    check(but_cores != nullptr, "cores of attention do not decide whether there is a Program");
    if (is_better(but_cores->fits, but_cores->step, but_cores->peak, best))
      best = std::move(*but_cores);
  }
  for (RotorRival& rival : rotor_rivals(prepared, study, budget, cores)) {
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

std::variant<RotorChoice, Infeasible> choose_rotor_of_budgets(const Prepared& prepared,
                                                              const Study& study, Bytes budget) {
  auto found = choose_rotor(prepared, study, budget);
  auto* best = std::get_if<RotorChoice>(&found);
  if (best == nullptr || !best->fits || !best->recomputes()) return found;
  const Bytes whole = best->whole;
  for (int parts = kParts - 1; parts > 0; --parts) {
    const Bytes less = whole * parts / kParts;
    if (less >= budget) continue;
    auto other = std::get<RotorChoice>(choose_rotor(prepared, study, less));
    if (!other.fits) break;
    if (other.step < best->step) *best = std::move(other);
  }
  return found;
}

void choose_sequences(Prepared& prepared) {
  Study& study = prepared.study;
  RecomputeConfig& recompute = study.recompute;
  if (!leaves_to_rotor(study)) return;
  const bool said = recompute.memory_budget > 0;
  const Bytes budget = said ? recompute.memory_budget : capacity_of(prepared);
  auto found = choose_rotor_of_budgets(prepared, study, budget);
  if (const auto* reason = std::get_if<Infeasible>(&found)) throw plan_error(study, *reason);
  auto& choice = std::get<RotorChoice>(found);
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
