#include "app/choose_rotor.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "app/analytic_step.h"
#include "engine/base/readable.h"
#include "engine/passes/recompute_regions.h"
#include "study/compile_study.h"
#include "study/study_origin.h"

namespace trainyard {

namespace {

constexpr const char *kSequencesKey = "recompute.sequences", *kMethodKey = "recompute.method";
constexpr double kDoubt = 0.03;      // of predictions, against steps with closed forms
constexpr double kMoreDoubt = 0.15;  // against those with links shared, which chance has part in
constexpr double kUnseen = 0.5;      // of what is predicted to run again a plan runs, at least

/// Whether something with this peak, and this step where it fits, is to be taken instead.
bool is_better(bool fits, Seconds step, Bytes peak, const RotorChoice& than) {
  if (fits != than.fits) return fits;
  return fits ? step < than.step : peak < than.peak;
}

/// A plan with a name, where it is better.
void take(const RecomputeConfig& recompute, const std::string& name, Bytes peak, Seconds step,
          Bytes budget, RotorChoice& best) {
  const bool fits = peak <= budget;
  if (!is_better(fits, step, peak, best)) return;
  best.lines = {"recompute rotor: " + name + ", takes least within " + bytes_text(budget) +
                " a device; its rank that needs most takes " + bytes_text(peak)};
  best.recompute = recompute;
  best.peak = peak;
  best.fits = fits;
  if (fits) best.step = step;
}

}  // namespace

bool leaves_to_rotor(const Study& study) {
  return study.recompute.method == RecomputeConfig::Method::kRotor &&
         study.recompute.sequences.empty();
}

Seconds likely_least(Seconds closed, Seconds once) {
  return std::max(closed * (1 - kDoubt), once * (1 - kMoreDoubt));
}

RotorPlans::RotorPlans(const Prepared& prepared, const Study& study)
    : prepared_(prepared),
      study_(study) {}

std::optional<Infeasible> RotorPlans::prepare() {
  auto base = make_rotor_base(prepared_, study_, Keeps::kAll);
  if (auto* reason = std::get_if<Infeasible>(&base)) return std::move(*reason);
  all_.emplace(std::get<RotorBase>(std::move(base)));
  of_all_.emplace(prepared_, study_, *all_, compiler_, Keeps::kAll, all_->whole);
  return std::nullopt;
}

Seconds RotorPlans::least_step(Seconds predicted, Seconds once) {
  const double longer = 1 + seen_.value_or(kUnseen) * (predicted / of_all_->rung(0).predicted - 1);
  return likely_least(all_->step * longer, once * longer);
}

Seconds RotorPlans::least_step(Bytes budget, Seconds once) {
  if (!of_all_->may_keep(budget)) return kForever;
  return least_step(of_all_->rung(of_all_->first_within(budget)).predicted, once);
}

/// Its simulated step where that is below `limit`, else 0. What closed forms say of it is held
/// against the prediction, which knows nothing of ops that a backward need not run again.
Seconds RotorPlans::step_below(Seconds limit, const Program& program, Seconds predicted) {
  constexpr double kRounding = 1e-3, kLeast = 1e-3;
  const Seconds closed = step_of(prepared_, study_, program, false).period;
  const double longer = predicted / of_all_->rung(0).predicted - 1;
  if (longer > kLeast) {
    const double seen = std::clamp((closed / all_->step - 1) / longer, 0.0, 1.0);
    seen_ = std::min(seen_.value_or(seen), seen);
  }
  if (closed * (1 - kRounding) >= limit) return 0;  // shared links make no step shorter
  const Seconds step = simulated_step(prepared_, study_, program);
  return step < limit ? step : 0;
}

void RotorPlans::drop_tables() { all_->tables = {}; }

void RotorPlans::try_rung(RotorLadder& ladder, int n, Bytes budget, RotorChoice& best) {
  RotorRung& rung = ladder.rung(n);
  const Program& program = ladder.compile_rung(rung);
  const bool fits = rung.peak <= budget;
  if (fits && rung.step == 0) rung.step = step_below(best.step, program, rung.predicted);
  if ((rung.step > 0 || !fits) && is_better(fits, rung.step, rung.peak, best)) {
    best = {ladder.recompute(rung), rung.peak, fits, fits ? rung.step : best.step,
            ladder.text(rung, budget)};
  }
}

/// From the first rung that may keep the budget down, as far as any may still be faster.
void RotorPlans::try_rungs(RotorLadder& ladder, Bytes budget, Seconds once, RotorChoice& best) {
  const int first = ladder.first_within(budget);
  for (int n = first;; ++n) {
    RotorRung& rung = ladder.rung(n);
    if (least_step(rung.predicted, once) >= best.step) return;
    // Where nothing fits, what a refusal names is of the lowest: then a budget of its peak works.
    const bool alike = n != first && ladder.rung(n - 1).sequences == rung.sequences;
    if (!alike || (n == ladder.lowest() && !best.fits)) try_rung(ladder, n, budget, best);
    if (!rung.last) continue;
    if (best.fits || n == ladder.lowest()) return;
    n = ladder.lowest() - 1;
  }
}

/// Where attention keeps cores, all but these.
void RotorPlans::try_cores(Bytes budget, Seconds once, RotorChoice& best) {
  if (attention_cores(all_->training).empty()) return;
  if (!but_cores_) {
    auto base = make_rotor_base(prepared_, study_, Keeps::kAllButCores);
    check(std::holds_alternative<RotorBase>(base),
          "cores of attention do not decide whether there is a Program");
    but_cores_.emplace(std::get<RotorBase>(std::move(base)));
    of_but_cores_.emplace(prepared_, study_, *but_cores_, compiler_, Keeps::kAllButCores,
                          all_->whole);
  }
  try_rungs(*of_but_cores_, budget, once, best);
}

void RotorPlans::try_rivals(Bytes budget, RotorChoice& best) {
  const bool cores = !attention_cores(all_->training).empty();
  if (!rivals_) rivals_.emplace(prepared_, study_, compiler_, cores);
  for (const RotorRival& rival : rivals_->within(budget, best.step)) {
    const bool fits = rival.peak <= budget;
    if (fits && rival.step == 0) continue;
    take(rival.recompute, rival.name, rival.peak, rival.step, budget, best);
  }
}

/// The largest share that keeps the budget, and smaller ones as far as any may still be faster.
void RotorPlans::try_shares(Bytes budget, Seconds once, RotorChoice& best) {
  if (!shares_) shares_.emplace(prepared_, study_, compiler_, *of_all_);
  for (int n = shares_->largest_within(budget); n >= 0; --n) {
    RotorShare& share = shares_->share(n);
    if (least_step(share.predicted, once) >= best.step) return;
    if (share.step == 0) {
      const Program& program = shares_->compile_share(share);
      if (share.peak > budget) continue;
      share.step = step_below(best.step, program, share.predicted);
    }
    if (share.step > 0)
      take(shares_->recompute(share), "stage-aware, fewer layers on later stages", share.peak,
           share.step, budget, best);
  }
}

RotorChoice RotorPlans::within(Bytes budget) {
  const Seconds once = simulated_step(prepared_, study_, of_all_->compile_rung(of_all_->rung(0)));
  RotorChoice best = within(budget, once, kForever);
  if (best.fits) return best;
  // A Program may take less than its rung says, and less than those of lower rungs.
  for (auto* ladder : {&of_all_, &of_but_cores_}) {
    if (!*ladder) continue;
    for (int n = 0; n <= (*ladder)->lowest(); ++n) try_rung(**ladder, n, budget, best);
  }
  return best;
}

RotorChoice RotorPlans::within(Bytes budget, Seconds once, Seconds enough) {
  RotorChoice best;
  best.peak = std::numeric_limits<Bytes>::max();
  best.step = enough;
  if (largest_peak(all_->whole) <= budget && once < enough) {
    RotorRung& whole = of_all_->rung(0);
    if (whole.peaks.empty()) of_all_->compile_rung(whole);
    whole.step = once;
    best = {of_all_->recompute(whole), whole.peak, true, once, of_all_->text(whole, budget)};
  }
  try_rungs(*of_all_, budget, once, best);
  try_cores(budget, once, best);
  try_rivals(budget, best);
  // Shares are no better than the first rung by more than the doubt.
  if (best.step == kForever || least_step(budget, once) < best.step) try_shares(budget, once, best);
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
  RotorChoice choice = plans.within(budget);
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
