// How rotor brings shardings of method map to a budget (recompute: rotor beside it).
#pragma once

#include <cstddef>
#include <memory>

#include "app/choose_rotor.h"
#include "app/splits_text.h"

namespace trainyard {

/// A sharding, and what it may compute again.
struct SplitRotor {
  std::size_t trial = 0;
  std::unique_ptr<Study> study;       // plans refer to it
  std::unique_ptr<RotorPlans> plans;  // none: there is no Program
  Seconds least = 0;                  // that its step is likely to take, within the budget
};

/// Plans of the trial that is the `index`-th. `study`: prepared.study, evaluated.
SplitRotor make_split_rotor(const Prepared& prepared, const Study& study, const SplitTrial& trial,
                            std::size_t index, Bytes budget);

/// The trial as it is without rotor.
void keep_all(SplitTrial& trial);

/// The trial with what rotor has chosen.
void put(RotorChoice choice, SplitTrial& trial);

}  // namespace trainyard
