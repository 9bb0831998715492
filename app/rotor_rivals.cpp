#include "app/rotor_rivals.h"

#include <algorithm>
#include <string>
#include <utility>

#include "app/analytic_step.h"
#include "app/choose_share.h"
#include "engine/schedule/schedule_names.h"

namespace trainyard {

namespace {

using Method = RecomputeConfig::Method;

constexpr int kMostEvery = 4;

/// Its share is chosen by the memory of an order that is there already.
bool has_shares(const Study& study) {
  return study.parallel.pipeline > 1 &&
         !(is_searched_schedule(study.schedule.method) && study.schedule.rows.empty());
}

}  // namespace

RotorRivals::RotorRivals(const Prepared& prepared, const Study& study, Compiler& compiler,
                         bool cores)
    : prepared_(prepared),
      study_(study),
      compiler_(compiler),
      cores_(cores) {}

std::vector<RotorRival> RotorRivals::within(Bytes budget) {
  for (RotorRival& rival : alike_) {
    if (rival.peak > budget || rival.step > 0) continue;
    const Program* program = program_with(rival.recompute);
    check(program != nullptr, "it had a Program");
    simulate(rival, *program);
  }
  add_alike(budget);
  std::vector<RotorRival> out = alike_;
  if (has_shares(study_)) {
    Study other = study_;
    other.recompute = {};
    other.recompute.method = Method::kStageAware;
    choose_share(prepared_, other, budget, compiler_);
    add(out, other.recompute, "stage-aware, fewer layers on later stages", budget);
  }
  return out;
}

/// One of more layers keeps more: where one of 2 is too much, one of 3 is.
void RotorRivals::add_alike(Bytes budget) {
  RecomputeConfig recompute;
  if (every_ == 0) {
    recompute.method = Method::kSelective;
    if (cores_) add(alike_, recompute, "selective, the cores of attention", budget);
    recompute.method = Method::kByOp;
    add(alike_, recompute, "by-op, all but every second product", budget);
  }
  recompute.method = Method::kFull;
  bool fits = true;
  if (every_ == 0) {
    fits = add(alike_, recompute, "full, every layer from its input", budget);
    every_ = 1;
  } else if (!alike_.empty()) {
    fits = alike_.back().peak <= budget;
  }
  while (fits && every_ < kMostEvery) {
    recompute.every = ++every_;
    const std::string name =
        "full, one of " + std::to_string(recompute.every) + " layers from its input";
    fits = add(alike_, recompute, name, budget);
  }
}

const Program* RotorRivals::program_with(const RecomputeConfig& recompute) const {
  Study other = study_;
  other.recompute = recompute;
  PassLog log;
  return program_of(prepared_, other, log, compiler_);
}

bool RotorRivals::add(std::vector<RotorRival>& to, const RecomputeConfig& recompute,
                      const std::string& name, Bytes budget) const {
  const Program* program = program_with(recompute);
  if (program == nullptr) return false;
  RotorRival& rival = to.emplace_back(RotorRival{recompute, name});
  for (const MemoryPeak& peak : peaks_of(prepared_, study_, *program))
    rival.peak = std::max(rival.peak, peak.total);
  if (rival.peak > budget) return false;
  simulate(rival, *program);
  return true;
}

void RotorRivals::simulate(RotorRival& rival, const Program& program) const {
  rival.step = simulated_step(prepared_, study_, program);
}

}  // namespace trainyard
