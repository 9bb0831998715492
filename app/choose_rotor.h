// Which groups of ops each stage runs again where a study leaves that to its memory
// (recompute: rotor).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/prepare.h"
#include "app/rotor_base.h"
#include "app/rotor_rivals.h"
#include "engine/base/error.h"
#include "engine/base/units.h"
#include "engine/passes/compile.h"

namespace trainyard {

/// Whether it has method rotor and does not say what is computed again.
bool leaves_to_rotor(const Study& study);

struct RotorChoice {
  RecomputeConfig recompute;       // rotor with its sequences, or a rival (rotor_rivals.h)
  Bytes peak = 0;                  // of the Program with it, on the rank that needs most
  bool fits = true;                // no: the least that was found
  Seconds step = 0;                // where it fits: simulated_step() of analytic_step.h
  std::vector<bool> has_room;      // [stage] its rank has, for all that is kept
  Bytes whole = 0;                 // of the rank that needs most, where nothing is computed again
  bool has_cores = false;          // attention keeps something of its core
  bool recomputes() const;         // anything at all
  std::vector<std::string> lines;  // what is computed again, and why
};

/// What a study with method rotor computes again, by its budget. Where all that backwards
/// read fits, nothing. Else each pipeline rank's stages get the fastest sequences that fit, by
/// groups timed in a simulated step without recomputation (recompute/rotor_in_flight.h); what a
/// Program with them takes is what counts, and so what rotor may take is brought nearer to what
/// there is, a few times. Where attention keeps its core (no flash attention), groups that keep all
/// but that are tried, too. Their simulated steps are held against those of methods that studies
/// can name (rotor_rivals.h), and the fastest is taken, so none of these is faster. Chains, their
/// tables and rivals are made once for all budgets.
class RotorPlans {
 public:
  /// Both outlive it.
  RotorPlans(const Prepared& prepared, const Study& study);

  /// First. Infeasible: why there is no Program.
  std::optional<Infeasible> prepare();

  RotorChoice within(Bytes budget);
  /// The same, or the plan of a smaller budget, where that is faster: rotor knows neither overlap
  /// nor what gathers wait for. The smaller ones are sixteenths of what all takes that backwards
  /// read, whatever the budget, so at none of these more memory makes the plan slower.
  RotorChoice within_or_less(Bytes budget);

 private:
  const Prepared& prepared_;
  const Study& study_;
  std::optional<RotorBase> all_, but_cores_;  // the second where attention keeps cores
  Compiler compiler_{{.recomputations = true, .candidates = true}};
  std::optional<RotorRivals> rivals_;
};

/// Chooses recompute, where the study has rotor and no sequences, and says so in its
/// origins and lines of its plan. Throws PlanError where nothing keeps the budget, with the
/// smallest that was found to work.
void choose_sequences(Prepared& prepared);

}  // namespace trainyard
