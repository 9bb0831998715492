#include "app/choose_splits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "app/analytic_step.h"
#include "app/choose_rotor.h"
#include "app/peer_shardings.h"
#include "app/splits_rotor.h"
#include "app/splits_study.h"
#include "app/splits_text.h"
#include "engine/base/format.h"
#include "engine/base/readable.h"
#include "engine/base/units.h"
#include "engine/passes/given_sharding.h"
#include "engine/passes/one_stage_graph.h"
#include "engine/passes/plan_mesh.h"
#include "engine/passes/select_kernels.h"
#include "engine/passes/separate_documents.h"
#include "engine/passes/tensor_methods.h"
#include "engine/planner/axis_links.h"
#include "engine/planner/map_problem.h"
#include "engine/planner/memory_profile.h"
#include "engine/strategies/choose_strategies.h"
#include "study/compile_study.h"
#include "study/study_origin.h"

namespace trainyard {

namespace {

constexpr int kTries = 2, kMostTries = 5;  // of the program until its answer keeps a budget
constexpr double kNextBudget = 0.97;       // of what would do if memory were in proportion
constexpr double kWork = 250'000;          // ops of all microbatches that budgets are tried on
constexpr double kLeastParts = 12, kMostParts = 64, kRotorParts = 6;
constexpr int kLarger = 10;  // budgets beyond a device's, where rotor recomputes, each by:
constexpr double kGrowth = 1.3;
constexpr double kFirstPrice = 10;  // memory of moves as large as the budget costs a tenth of all
constexpr double kNextPrice = 4;
constexpr std::int64_t kBranchSteps = 2'000;
constexpr std::size_t kMostPaired = 1024;  // ranks whose pairs are looked at

class SplitChooser {
 public:
  explicit SplitChooser(const Prepared& prepared)
      : prepared_(prepared),
        study_(evaluated_study(prepared.study)),
        mesh_(study_.parallel.tensor_mesh),
        plan_(map_plan(study_.parallel)),
        kernels_(select_kernels(prepared.model, prepared.software,
                                study_.training.flash_attention == FlashAttention::kOn)),
        rotor_(leaves_to_rotor(prepared.study)),
        budget_(static_cast<double>(budget_of_splits(prepared))) {}

  ChosenSplits run() {
    if (study_.documents.on()) separate_documents(kernels_);
    auto whole = plan_whole(kernels_, plan_);
    if (const auto* reason = std::get_if<Infeasible>(&whole)) throw plan_error(study_, *reason);
    whole_ = std::get<PlannedGraph>(std::move(whole));
    // A sharding of the study's own names axes of this mesh.
    const bool said = is_said(prepared_.study, kTensorMeshKey) || !study_.sharding.empty();
    for (NamedSharding& peer :
         peer_shardings(kernels_, prepared_.study.parallel, study_.model.family,
                        said ? PeerMeshes::kOwn : PeerMeshes::kAll))
      try_sharding(peer.name, peer.mesh, std::move(peer.planned));
    make_problem();
    try_budgets();
    if (trials_.empty()) throw plan_error(study_, *refused_);
    choose();
    if (rotor_ && !fits(best_)) {
      try_less();
      choose(true);
    }
    if (!fits(best_)) fail();
    if (rotor_ && !trials_[best_].recompute) {
      const SplitRotor one = rotor_of(best_);
      if (one.plans) put(one.plans->within(static_cast<Bytes>(budget_)), trials_[best_]);
    }
    ChosenSplits out;
    out.trials = std::move(trials_);
    out.best = best_;
    const SplitTrial& best = out.trials[best_];
    out.problem = &*problem_;
    out.given = given_;
    if (best.mesh == mesh_) out.choice = problem_->choice_of(best.planned);
    study_.parallel.tensor_mesh = best.mesh;
    out.lines = splits_text(whole_, map_plan(study_.parallel), out);
    return out;
  }

 private:
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  bool fits(std::size_t trial) const {
    return trial != kNone && static_cast<double>(trials_[trial].peak) <= budget_;
  }
  bool is_better(const SplitTrial& a, std::size_t b) const {
    if (b == kNone) return true;
    const bool fits_a = static_cast<double>(a.peak) <= budget_;
    if (fits_a != fits(b)) return fits_a;
    return fits_a ? a.step < trials_[b].step : a.peak < trials_[b].peak;
  }

  /// Compiles a sharding and simulates its step; nullptr: no executor has it.
  const SplitTrial* try_sharding(const std::string& name, const std::vector<int>& mesh,
                                 PlannedGraph planned) {
    SplitTrial trial;
    trial.name = name;
    trial.mesh = mesh;
    trial.ops = listed_ops(planned, set_of(*find_axes(planned.sharding.mesh, "tp")));
    const auto same = std::find_if(trials_.begin(), trials_.end(), [&](const SplitTrial& other) {
      return other.mesh == trial.mesh && other.ops == trial.ops;
    });
    if (same != trials_.end()) return &*same;
    trial.planned = std::move(planned);
    study_.parallel.tensor_mesh = trial.mesh;
    study_.parallel.tensor_ops = trial.ops;
    PassLog log;
    const auto compiled = compile(compiler_, prepared_.model, study_, prepared_.software, log);
    if (const auto* reason = std::get_if<Infeasible>(&compiled)) {
      if (!refused_) refused_ = *reason;
      // The list is ours, not the study's.
      if (refused_->key.starts_with(kMapOpsKey)) refused_->key = "parallel.tensor_method";
      return nullptr;
    }
    const Program& program = *std::get<const Program*>(compiled);
    trial.closed = step_of(prepared_, study_, program, false).period;
    trial.once = simulated_step(prepared_, study_, program);
    trial.whole = largest_peak(peaks_of(prepared_, study_, program));
    if (rotor_) trial.always = standing_memory(prepared_, study_, program);
    trials_.push_back(std::move(trial));
    return &trials_.back();
  }

  /// Among all that were tried, what keeps the budget fastest, or what takes least. Those that take
  /// too much rotor brings back to it (Liu et al., section 5.3), what is predicted to be fastest
  /// then first: few others can win. Those that do not may be faster with it, too: where links are
  /// shared chance has part in what they take. `all`: those, too, that cannot be brought back, to
  /// know what they take.
  void choose(bool all = false) {
    best_ = kNone;
    for (std::size_t trial = 0; trial < trials_.size(); ++trial) {
      keep_all(trials_[trial]);
      if (is_better(trials_[trial], best_)) best_ = trial;
    }
    if (!rotor_) return;
    SplitQueue queue;
    for (std::size_t trial = 0; trial < trials_.size(); ++trial) {
      const bool may_fit = all || static_cast<double>(trials_[trial].always) <= budget_;
      if (may_fit && trials_[trial].closed < enough())
        queue.add(trial, likely_least(trials_[trial].closed, trials_[trial].once));
    }
    const auto make = [&](std::size_t trial) { return rotor_of(trial); };
    const auto may_win = [&](Seconds least) { return all || least < enough(); };
    while (const auto next = queue.next(make, may_win)) {
      const std::size_t trial = next->first;
      recompute(trials_[trial], *next->second.plans, enough());
      if (is_better(trials_[trial], best_)) best_ = trial;
    }
  }

  /// What is no faster cannot win.
  Seconds enough() const { return fits(best_) ? trials_[best_].step : kForever; }

  SplitRotor rotor_of(std::size_t trial) const {
    return make_split_rotor(prepared_, study_, trials_[trial], static_cast<Bytes>(budget_));
  }

  void recompute(SplitTrial& trial, RotorPlans& plans, Seconds enough) {
    RotorChoice choice = plans.within(static_cast<Bytes>(budget_), trial.once, enough);
    if (choice.fits ? choice.step < enough : enough == kForever) put(std::move(choice), trial);
  }

  const SplitTrial* try_choice(const std::string& name, const Choice& choice) {
    return problem_->can_run(choice) ? try_sharding(name, mesh_, problem_->planned(choice))
                                     : nullptr;
  }

  void make_problem() {
    auto one = one_stage_graph(prepared_.model, one_device(study_), prepared_.software);
    if (const auto* reason = std::get_if<Infeasible>(&one)) throw plan_error(study_, *reason);
    const auto& training = std::get<TrainingGraph>(one);
    problem_.emplace(whole_, training, plan_.tensor, prepared_.hardware, prepared_.software,
                     costs(training));
    const auto found = find_given(whole_, study_.sharding);
    const auto* given = std::get_if<FoundSharding>(&found);
    for (std::size_t n = 0; given != nullptr && n < given->ops.size(); ++n) {
      problem_->require(given->ops[n].op, given->ops[n].strategy);
      given_.push_back(given->ops[n].op);
    }
  }

  /// Memory by what the unsplit model takes: of a parameter, and of what a microbatch keeps.
  MapCosts costs(const TrainingGraph& training) {
    MapCosts out;
    const std::vector<std::int64_t> devices = devices_of_tensor_group(study_.parallel);
    PairCosts pairs;
    if (devices.size() <= kMostPaired) {
      auto known = pair_costs(study_.cluster, devices);
      if (auto* found = std::get_if<PairCosts>(&known)) pairs = std::move(*found);
    }
    out.links =
        axis_links(plan_.mesh, plan_.tensor, devices[1] - devices[0], study_.cluster, pairs);
    out.microbatches = static_cast<double>(std::max<std::int64_t>(1, study_.num_microbatches()));
    out.gradient_bytes = static_cast<double>(size_in_bytes(study_.training.grad_dtype));
    out.fp8 = study_.training.fp8.on();
    constexpr double kUpdateTouches = 7;  // of four bytes: gradient; weight and moments, both ways
    out.update = kUpdateTouches * 4 / prepared_.hardware.memory_bandwidth;
    study_.parallel.tensor_mesh = mesh_;
    study_.parallel.tensor_ops = listed_ops(whole_, set_of(plan_.tensor));
    PassLog log;
    const auto program = program_of(prepared_, study_, log);
    double state = 0, kept = 0;
    if (program) {
      for (const MemoryPeak& peak : peaks_of(prepared_, study_, *program)) {
        state += static_cast<double>(peak.parameters + peak.gradients + peak.optimizer_state);
        kept += static_cast<double>(peak.activations);
        fixed_ = std::max(fixed_, static_cast<double>(peak.buffers));
      }
    }
    double elements = 0;
    for (const Parameter& parameter : training.graph.parameters)
      elements +=
          parameter.tensor == kNoIndex ? 0 : static_cast<double>(num_elements(parameter.padded));
    const auto of_microbatch = static_cast<double>(profile_memory(training).kept);
    out.state_bytes = elements > 0 ? state / elements : 0;
    out.kept_factor = of_microbatch > 0 ? kept / of_microbatch : 1;
    return out;
  }

  /// What the program answers to that much on a device, with the budget of all pipeline ranks
  /// together; where the answer, whose moves take memory of their own, does not keep it, to less,
  /// with a price on that memory that rises.
  void try_budget(double device, int tries) {
    double price = 0;
    const double ranks = study_.parallel.pipeline;
    double budget = std::max(0.0, device - fixed_) * ranks;
    for (int tried = 0; tried < tries; ++tried) {
      StrategyProblem problem = problem_->with_priced_moves(price);
      problem.budget = budget;
      const auto found = choose_strategies(problem, options());
      const auto* chosen = std::get_if<ChosenStrategies>(&found);
      if (chosen == nullptr) return;
      const SplitTrial* trial =
          try_choice("op by op, within " + bytes_text(budget / ranks), chosen->choice);
      if (trial == nullptr || static_cast<double>(trial->whole) <= device) return;
      budget = std::min(budget, chosen->memory) * device / static_cast<double>(trial->whole) *
               kNextBudget;
      price = price == 0 ? chosen->objective / (kFirstPrice * budget) : price * kNextPrice;
    }
  }

  /// The program's answers to budgets from the least that was found to what its fastest answer
  /// takes: its time is no simulated one, and what it answers to less memory may be faster. None
  /// depends on the study's budget, so more memory has all the plans that less has.
  void try_budgets() {
    StrategyProblem problem = problem_->problem();
    problem.budget = std::numeric_limits<double>::infinity();
    const auto fastest = std::get<ChosenStrategies>(choose_strategies(problem, options()));
    const SplitTrial* all = try_choice("op by op", fastest.choice);
    const double most = all != nullptr ? static_cast<double>(all->whole)
                                       : fixed_ + fastest.memory / study_.parallel.pipeline;
    problem.budget = least_memory(problem);
    const auto least = std::get<ChosenStrategies>(choose_strategies(problem, options()));
    try_choice("least memory", least.choice);
    if (!rotor_) try_less();
    const auto low = static_cast<double>(least_whole());
    const auto work = static_cast<double>(std::ssize(kernels_.ops) *
                                          std::max<std::int64_t>(1, study_.num_microbatches()));
    const int parts =
        static_cast<int>(rotor_ ? kRotorParts : std::clamp(kWork / work, kLeastParts, kMostParts));
    for (int n = 1; low < most && n < parts; ++n)
      try_budget(low + (most - low) * n / parts, kTries);
    if (rotor_) try_levels(least.memory, fastest.memory);
  }

  /// Strategies at budgets B 1.3^n, n < 10, with B what the device has, whatever the study's, from
  /// the `least` there is to `enough` for the fastest, which rotor brings back to the study's
  /// budget (Liu et al., section 5.3).
  void try_levels(double least, double enough) {
    StrategyProblem problem = problem_->problem();
    const double ranks = study_.parallel.pipeline;
    const double has = (static_cast<double>(capacity_of(prepared_)) - fixed_) * ranks;
    if (has <= 0 || least <= 0) return;
    for (auto n = static_cast<int>(std::ceil(std::log(least / has) / std::log(kGrowth)));
         n < kLarger; ++n) {
      problem.budget = has * std::pow(kGrowth, n);
      if (problem.budget >= enough) return;
      const auto found = choose_strategies(problem, options());
      const auto* chosen = std::get_if<ChosenStrategies>(&found);
      if (chosen == nullptr) continue;
      try_choice("op by op, within " + bytes_text(problem.budget / ranks), chosen->choice);
    }
  }

  /// Less than the least so far, as long as there is.
  void try_less() {
    for (Bytes before = std::numeric_limits<Bytes>::max(); least_whole() < before;) {
      before = least_whole();
      try_budget(static_cast<double>(before - 1), kMostTries);
    }
  }

  /// Among all that were tried, without recomputation.
  Bytes least_whole() const {
    Bytes least = std::numeric_limits<Bytes>::max();
    for (const SplitTrial& trial : trials_) least = std::min(least, trial.whole);
    return least;
  }

  static StrategyOptions options() {
    StrategyOptions out;
    out.most_steps = out.most_steps_of_few = kBranchSteps;
    out.kicks = 0;
    return out;
  }

  /// The least that a plan takes is what works: with as much, all is tried that was. Not so where
  /// rotor may answer otherwise, which is asked.
  [[noreturn]] void fail() {
    const double said_budget = budget_;
    for (int tried = 0; rotor_ && tried < kMostTries && !fits(best_); ++tried) {
      budget_ = std::max(budget_, static_cast<double>(trials_[best_].peak));
      choose();
    }
    const Bytes least = rotor_ && fits(best_) ? static_cast<Bytes>(budget_) : least_whole();
    const bool by_map = study_.parallel.tensor_memory > 0;
    const bool by_rotor = !by_map && prepared_.study.recompute.memory_budget > 0;
    const bool said = by_map || by_rotor;
    const std::string key = by_map     ? "parallel.tensor_method.memory_budget"
                            : by_rotor ? "recompute.memory_budget"
                                       : "parallel.tensor_method";
    throw plan_error(
        study_,
        {"no splits of ops" + std::string(rotor_ ? " and no recomputation" : "") + " fit " +
             bytes_text(said_budget) + " a device" + (said ? "" : ", which is what it has") +
             "; the smallest budget that " + (rotor_ ? "was found to work" : "works") + " is " +
             std::to_string(least) + " B (" + bytes_text(least) + ")",
         key});
  }

  const Prepared& prepared_;
  Study study_;
  Compiler compiler_{{.candidates = true}};
  std::vector<int> mesh_;  // of the program, and of the plan that it is told
  MapPlan plan_;
  Graph kernels_;
  bool rotor_;        // recomputation is chosen with the splits
  double budget_;     // bytes of a device
  double fixed_ = 0;  // of it, whatever is chosen
  PlannedGraph whole_;
  std::optional<MapProblem> problem_;
  std::vector<OpId> given_;            // ops that the study's sharding splits
  std::optional<Infeasible> refused_;  // why the first that has no Program has none
  std::vector<SplitTrial> trials_;
  std::size_t best_ = kNone;
};

}  // namespace

void choose_splits(Prepared& prepared) {
  ParallelConfig& parallel = prepared.study.parallel;
  if (!tensor_method(parallel.tensor_method).splits_by_cost || parallel.tensor == 1) return;
  if (!parallel.tensor_ops.empty()) return check_listed_ops(prepared);
  SplitChooser chooser(prepared);
  ChosenSplits chosen = chooser.run();
  prepared.study.origins[kMapOpsKey] =
      derived_origin("the fastest of " + std::to_string(chosen.trials.size()) + ": " +
                     chosen.trials[chosen.best].name);
  SplitTrial& best = chosen.trials[chosen.best];
  if (parallel.tensor_mesh != best.mesh) {
    parallel.tensor_mesh = best.mesh;
    prepared.study.origins[kTensorMeshKey] = derived_origin("that of the fastest splits of ops");
  }
  parallel.tensor_ops = std::move(best.ops);
  if (best.recompute) {
    const bool sequences = !best.recompute->sequences.empty();
    prepared.study.recompute = *best.recompute;
    prepared.study.origins[sequences ? "recompute.sequences" : "recompute.method"] =
        derived_origin("rotor: the fastest with these splits of ops");
    chosen.lines.insert(chosen.lines.begin(), best.lines.begin(), best.lines.end());
  }
  auto& planned = prepared.study.planned;
  planned.insert(planned.end(), chosen.lines.begin(), chosen.lines.end());
}

}  // namespace trainyard
