#include "app/rotor_rivals.h"

#include <algorithm>
#include <string>
#include <utility>

#include "app/analytic_step.h"

namespace trainyard {

namespace {

using Method = RecomputeConfig::Method;

constexpr int kMostEvery = 4;

}  // namespace

RotorRivals::RotorRivals(const Prepared& prepared, const Study& study, Compiler& compiler,
                         bool cores)
    : prepared_(prepared),
      study_(study),
      compiler_(compiler),
      cores_(cores) {}

std::vector<RotorRival> RotorRivals::within(Bytes budget, Seconds enough) {
  for (RotorRival& rival : rivals_) {
    if (rival.peak > budget || rival.step > 0) continue;
    const Program* program = program_with(rival.recompute, prepared_, study_, compiler_);
    check(program != nullptr, "it had a Program");
    rival.step = step_if_below(enough, prepared_, study_, *program).value_or(0);
  }
  add_more(budget, enough);
  return rivals_;
}

/// One of more layers keeps more: where one of 2 is too much, one of 3 is.
void RotorRivals::add_more(Bytes budget, Seconds enough) {
  RecomputeConfig recompute;
  if (every_ == 0) {
    recompute.method = Method::kSelective;
    if (cores_) add(recompute, "selective, the cores of attention", budget, enough);
    recompute.method = Method::kByOp;
    add(recompute, "by-op, all but every second product", budget, enough);
  }
  recompute.method = Method::kFull;
  bool fits = true;
  if (every_ == 0) {
    fits = add(recompute, "full, every layer from its input", budget, enough);
    every_ = 1;
  } else if (!rivals_.empty()) {
    fits = rivals_.back().peak <= budget;
  }
  while (fits && every_ < kMostEvery) {
    recompute.every = ++every_;
    const std::string name =
        "full, one of " + std::to_string(recompute.every) + " layers from its input";
    fits = add(recompute, name, budget, enough);
  }
}

bool RotorRivals::add(const RecomputeConfig& recompute, const std::string& name, Bytes budget,
                      Seconds enough) {
  const Program* program = program_with(recompute, prepared_, study_, compiler_);
  if (program == nullptr) return false;
  RotorRival& rival = rivals_.emplace_back(RotorRival{recompute, name});
  rival.peak = largest_peak(peaks_of(prepared_, study_, *program));
  if (rival.peak > budget) return false;
  rival.step = step_if_below(enough, prepared_, study_, *program).value_or(0);
  return true;
}

}  // namespace trainyard
