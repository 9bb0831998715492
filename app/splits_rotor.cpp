#include "app/splits_rotor.h"

#include <utility>

namespace trainyard {

SplitRotor make_split_rotor(const Prepared& prepared, const Study& study, const SplitTrial& trial,
                            std::size_t index, Bytes budget) {
  SplitRotor out;
  out.trial = index;
  out.study = std::make_unique<Study>(study);
  out.study->parallel.tensor_mesh = trial.mesh;
  out.study->parallel.tensor_ops = trial.ops;
  out.study->recompute = prepared.study.recompute;
  auto plans = std::make_unique<RotorPlans>(prepared, *out.study);
  if (plans->prepare()) return out;
  out.least = plans->least_step(budget, trial.once);
  plans->drop_tables();
  out.plans = std::move(plans);
  return out;
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
