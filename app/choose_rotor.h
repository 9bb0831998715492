// Which groups of ops each stage runs again where a study leaves that to its memory
// (recompute: rotor).
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "app/prepare.h"
#include "engine/base/error.h"
#include "engine/base/units.h"

namespace trainyard {

/// Whether it has method rotor and does not say what is computed again.
bool leaves_to_rotor(const Study& study);

struct RotorChoice {
  std::vector<std::string> sequences;  // [stage], in the text of recompute/chain.h
  Bytes peak = 0;                      // of the Program with them, on the rank that needs most
  bool fits = true;                    // no: the least that was found
  Seconds step = 0;                    // with closed forms
  std::vector<bool> has_room;          // [stage] its rank has, for all that is kept
  bool has_cores = false;              // attention keeps something of its core
  bool recomputes() const;             // anything at all
  std::vector<std::string> lines;      // what is computed again, and why
};

/// Sequences of `study`, which has method rotor, within its budget. Where all that backwards read
/// fits, nothing is computed again. Else each pipeline rank's stages get the fastest that fit, by
/// groups timed in a simulated step without recomputation (recompute/rotor_in_flight.h); what a
/// Program with them takes is what counts, and so what rotor may take is brought nearer to what
/// there is, a few times. Where attention keeps its core (no flash attention), groups that keep all
/// but that are tried, too, and the faster step is taken. Infeasible: why there is no Program.
std::variant<RotorChoice, Infeasible> choose_rotor(const Prepared& prepared, Study study,
                                                   Bytes budget);

/// Chooses recompute.sequences, where the study has rotor and no sequences, and says so in its
/// origins and lines of its plan. Throws PlanError where nothing keeps the budget, with the
/// smallest that was found to work.
void choose_sequences(Prepared& prepared);

}  // namespace trainyard
