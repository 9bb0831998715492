// Which groups of ops each stage runs again where a study leaves that to its memory
// (recompute: rotor).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/prepare.h"
#include "app/rotor_base.h"
#include "app/rotor_ladder.h"
#include "app/rotor_rivals.h"
#include "app/rotor_shares.h"
#include "engine/base/error.h"
#include "engine/base/units.h"
#include "engine/passes/compile.h"

namespace trainyard {

/// Whether it has method rotor and does not say what is computed again.
bool leaves_to_rotor(const Study& study);

struct RotorChoice {
  RecomputeConfig recompute;       // rotor with its sequences, or a rival (rotor_rivals.h)
  Bytes peak = 0;                  // of the Program with it, on the rank that needs most
  bool fits = false;               // no: the least that was found
  Seconds step = 0;                // where it fits: simulated_step() of analytic_step.h
  std::vector<std::string> lines;  // what is computed again, and why
};

/// What no plan is likely to take less than, of a study whose step with nothing computed again
/// takes so much: `closed`, with closed forms, and `once`, simulated.
Seconds likely_least(Seconds closed, Seconds once);

/// What a study with method rotor computes again, by its budget: the fastest plan whose Program
/// keeps it, by simulated steps. Plans are nothing; those on a ladder of memory (rotor_ladder.h),
/// by groups timed in a simulated step without recomputation; and what studies can name
/// (rotor_rivals.h, rotor_shares.h), so none of these is faster. Where attention keeps its core (no
/// flash attention), groups that keep all but that are on a ladder of their own. No plan depends on
/// the budget, and what keeps a budget keeps a larger one: more memory makes no plan slower. What
/// is predicted to be slower by far is not simulated.
/// Chains, their tables, rungs and rivals are made once for all budgets.
class RotorPlans {
 public:
  /// Both outlive it.
  RotorPlans(const Prepared& prepared, const Study& study);

  /// First. Infeasible: why there is no Program.
  std::optional<Infeasible> prepare();

  /// What no plan within the budget is likely to take less than. Infinity: groups by themselves do
  /// not keep it. `once`: the simulated step with nothing computed again.
  Seconds least_step(Bytes budget, Seconds once);
  /// A plan that is not faster than `enough` need not be found.
  RotorChoice within(Bytes budget, Seconds once, Seconds enough);
  /// The same where the step is not known.
  RotorChoice within(Bytes budget);
  /// What no budget needs: the tables are made again where they are asked.
  void drop_tables();

 private:
  Seconds least_step(Seconds predicted, Seconds once);
  Seconds step_below(Seconds limit, const Program& program, Seconds predicted);
  void try_rung(RotorLadder& ladder, int n, Bytes budget, RotorChoice& best);
  void try_rungs(RotorLadder& ladder, Bytes budget, Seconds once, RotorChoice& best);
  void try_cores(Bytes budget, Seconds once, RotorChoice& best);
  void try_shares(Bytes budget, Seconds once, RotorChoice& best);
  void try_rivals(Bytes budget, RotorChoice& best);

  const Prepared& prepared_;
  const Study& study_;
  Compiler compiler_{{.recomputations = true, .candidates = true}};
  std::optional<RotorBase> all_, but_cores_;  // the second where attention keeps cores
  std::optional<RotorLadder> of_all_, of_but_cores_;
  std::optional<RotorRivals> rivals_;
  std::optional<RotorShares> shares_;
  std::optional<double>
      seen_;  // the least part of what was predicted to be more that closed forms said
};

/// Chooses recompute, where the study has rotor and no sequences, and says so in its
/// origins and lines of its plan. Throws PlanError where nothing keeps the budget, with the
/// smallest that was found to work.
void choose_sequences(Prepared& prepared);

}  // namespace trainyard
