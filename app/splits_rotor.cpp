#include "app/splits_rotor.h"

#include <utility>

namespace trainyard {

SplitRotor make_split_rotor(const Prepared& prepared, const Study& study, const SplitTrial& trial,
                            Bytes budget) {
  SplitRotor out;
  out.study = std::make_unique<Study>(study);
  out.study->parallel.tensor_mesh = trial.mesh;
  out.study->parallel.tensor_ops = trial.ops;
  out.study->recompute = prepared.study.recompute;
  auto plans = std::make_unique<RotorPlans>(prepared, *out.study);
  if (plans->prepare()) return out;
  out.least = plans->least_step(budget, trial.once);
  out.plans = std::move(plans);
  return out;
}

std::optional<std::pair<std::size_t, SplitRotor>> SplitQueue::next(const Make& make,
                                                                   const MayWin& may_win) {
  while (!waiting_.empty() && may_win(waiting_.top().first)) {
    const std::size_t trial = waiting_.top().second;
    waiting_.pop();
    if (auto known = made_.extract(trial)) return std::pair(trial, std::move(known.mapped()));
    SplitRotor one = make(trial);
    if (!one.plans) continue;
    const Waiting again(one.least, trial);
    // Another's turn comes first, and tables are large.
    if (!waiting_.empty() && waiting_.top() < again) one.plans->drop_tables();
    waiting_.push(again);
    made_.emplace(trial, std::move(one));
  }
  return std::nullopt;
}

void keep_all(SplitTrial& trial) {
  trial.step = trial.once;
  trial.peak = trial.whole;
  trial.recompute.reset();
  trial.lines.clear();
}

void put(RotorChoice choice, SplitTrial& trial) {
  trial.recompute = std::move(choice.recompute);
  trial.lines = std::move(choice.lines);
  trial.peak = choice.peak;
  if (choice.fits) trial.step = choice.step;
}

}  // namespace trainyard
