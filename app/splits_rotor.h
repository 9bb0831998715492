// How rotor brings shardings of method map to a budget (recompute: rotor beside it).
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "app/choose_rotor.h"
#include "app/splits_text.h"

namespace trainyard {

/// What a sharding may compute again.
struct SplitRotor {
  std::unique_ptr<Study> study;       // plans refer to it
  std::unique_ptr<RotorPlans> plans;  // none: there is no Program
  Seconds least = 0;                  // that its step is likely to take, within the budget
};

/// Plans of the trial. `study`: prepared.study, evaluated.
SplitRotor make_split_rotor(const Prepared& prepared, const Study& study, const SplitTrial& trial,
                            Bytes budget);

/// Trials by what they are likely to take with rotor, the least first. Plans are made of those
/// alone whose turn comes by what they take whatever is computed again, which is less: rotor's
/// tables are dear.
class SplitQueue {
 public:
  using Make = std::function<SplitRotor(std::size_t trial)>;
  using MayWin = std::function<bool(Seconds)>;

  /// `least`: whatever is computed again.
  void add(std::size_t trial, Seconds least) { waiting_.emplace(least, trial); }

  /// The next trial, with plans; of as likely ones the first. nullopt: no other has plans and may
  /// win.
  std::optional<std::pair<std::size_t, SplitRotor>> next(const Make& make, const MayWin& may_win);

 private:
  using Waiting = std::pair<Seconds, std::size_t>;
  std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>> waiting_;
  std::map<std::size_t, SplitRotor> made_;  // by trial
};

/// The trial as it is without rotor.
void keep_all(SplitTrial& trial);

/// The trial with what rotor has chosen.
void put(RotorChoice choice, SplitTrial& trial);

}  // namespace trainyard
