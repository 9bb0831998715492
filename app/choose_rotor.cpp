#include "app/choose_rotor.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "app/analytic_step.h"
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

constexpr const char* kSequencesKey = "recompute.sequences";
constexpr int kMostTries = 12;      // Programs, until what rotor may take is what there is
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
    const auto peaks = peaks_with(chosen_);
    RotorChoice out;
    out.has_cores = !attention_cores(training_).empty();
    for (const MemoryPeak& peak : peaks) out.peak = std::max(out.peak, peak.total);
    out.fits = out.peak <= budget_;
    out.sequences = study_.recompute.sequences;
    out.step = step_;
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
    double least = 0, room = 0, low = 0, high = 0;  // bytes that rotor may take
    bool fits = false;                              // sequences at `low` do
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

  /// Where no sequences fit what there is by what groups take, those that take least are tried.
  static void grow_until_possible(Rank& rank, const std::vector<ChainInFlight>& chains,
                                  std::int64_t slots) {
    rank.rotor = std::make_unique<RotorInFlight>(chains, rank.high, slots);
    while (!rank.rotor->solve(rank.high)) {
      rank.high *= 2;
      rank.rotor = std::make_unique<RotorInFlight>(chains, rank.high, slots);
    }
    double least = 0, enough = rank.high;
    while (enough - least > kNear * enough) {
      const double middle = (least + enough) / 2;
      (rank.rotor->solve(middle) ? enough : least) = middle;
    }
    rank.least = enough;
    rank.low = enough;
    rank.room = std::clamp(rank.room, rank.least, rank.high);
  }

  /// Peaks of ranks are of their own stages alone, and so all ranks are brought near at once.
  void search() {
    Sequences tried = chosen_;
    for (int n = 0; n < kMostTries && any_open(); ++n) {
      for (const Rank& rank : ranks_) {
        if (!rank.done) put_sequences(rank, rank.room, tried);
      }
      const auto peaks = peaks_with(tried);
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        if (!ranks_[r].done) learn(ranks_[r], peaks[r].total, tried);
      }
    }
    for (Rank& rank : ranks_) {
      if (rank.rotor && !rank.fits) put_sequences(rank, rank.least, chosen_);
    }
  }

  bool any_open() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return !rank.done; });
  }

  static void put_sequences(const Rank& rank, double room, Sequences& out) {
    auto found = rank.rotor->solve(room);
    check(found.has_value(), "what fitted a smaller memory fits a larger one");
    for (std::size_t s = 0; s < rank.stages.size(); ++s)
      out[rank.stages[s]] = std::move((*found)[s]);
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

  std::vector<MemoryPeak> peaks_with(const Sequences& sequences) {
    study_.recompute.sequences.clear();
    for (std::size_t stage = 0; stage < sequences.size(); ++stage)
      study_.recompute.sequences.push_back(to_text(as_kept(sequences[stage], stage)));
    PassLog log;
    const auto program = program_of(prepared_, study_, log);
    check(program.has_value(), "a Program without recomputation has one with it");
    step_ = step_of(prepared_, study_, *program, false).period;
    return peaks_of(prepared_, study_, *program);
  }

  const Prepared& prepared_;
  Study study_;
  Bytes budget_;
  Keeps keeps_;
  std::vector<bool> keep_all_;
  Seconds step_ = 0;  // of the latest Program
  PassLog log_;
  TrainingGraph training_;  // without recomputation
  ChainGroups groups_;
  std::vector<SizedChain> chains_;  // [stage]
  std::vector<MemoryPeak> whole_;   // without recomputation
  std::vector<Rank> ranks_;
  Sequences chosen_;  // [stage]
};

}  // namespace

bool leaves_to_rotor(const Study& study) {
  return study.recompute.method == RecomputeConfig::Method::kRotor &&
         study.recompute.sequences.empty();
}

bool RotorChoice::recomputes() const {
  return std::any_of(sequences.begin(), sequences.end(), [](const std::string& sequence) {
    return sequence.find("CF") != std::string::npos || sequence.find("Fs") != std::string::npos;
  });
}

std::variant<RotorChoice, Infeasible> choose_rotor(const Prepared& prepared, Study study,
                                                   Bytes budget) {
  auto all = RotorChooser(prepared, study, budget, Keeps::kAll, {}).run();
  auto* const kept = std::get_if<RotorChoice>(&all);
  const bool again = kept != nullptr && (!kept->fits || kept->recomputes());
  if (!again || !kept->has_cores) return all;
  auto but_cores =
      RotorChooser(prepared, std::move(study), budget, Keeps::kAllButCores, kept->has_room).run();
  auto* const other = std::get_if<RotorChoice>(&but_cores);
  check(other != nullptr, "cores of attention do not decide whether there is a Program");
  const bool better = other->fits != kept->fits ? other->fits
                      : kept->fits              ? other->step < kept->step
                                                : other->peak < kept->peak;
  return better ? but_cores : all;
}

void choose_sequences(Prepared& prepared) {
  Study& study = prepared.study;
  RecomputeConfig& recompute = study.recompute;
  if (!leaves_to_rotor(study)) return;
  const bool said = recompute.memory_budget > 0;
  const Bytes budget = said ? recompute.memory_budget : capacity_of(prepared);
  auto found = choose_rotor(prepared, study, budget);
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
  recompute.sequences = std::move(choice.sequences);
  study.origins[kSequencesKey] = derived_origin("the fastest within " + bytes_text(budget));
  study.planned.insert(study.planned.end(), choice.lines.begin(), choice.lines.end());
}

}  // namespace trainyard
