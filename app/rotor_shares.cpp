#include "app/rotor_shares.h"

#include <algorithm>
#include <utility>

#include "app/analytic_step.h"
#include "engine/base/error.h"
#include "engine/recompute/stage_aware.h"
#include "engine/schedule/schedule_names.h"

namespace trainyard {

RotorShares::RotorShares(const Prepared& prepared, const Study& study, Compiler& compiler,
                         const RotorLadder& ladder)
    : prepared_(prepared),
      study_(study),
      compiler_(compiler) {
  const bool is_searched =
      is_searched_schedule(study.schedule.method) && study.schedule.rows.empty();
  if (study.parallel.pipeline > 1 && !is_searched) find_shares(ladder);
}

void RotorShares::find_shares(const RotorLadder& ladder) {
  Study none = study_;
  none.recompute = recompute({});
  PassLog log;
  const Program* program = program_of(prepared_, none, log, compiler_);
  if (program == nullptr) return;
  const auto stages = static_cast<int>(log.units.size());
  std::vector<double> before;
  for (const double first : first_share_steps(log.units, false)) {
    const Numbered<double> kept = stage_aware_shares(stages, first, false);
    std::vector<double> again;
    for (int stage = 0; stage < stages; ++stage) {
      const int units = log.units[stage];
      again.push_back(units == 0 ? 0.0 : 1.0 * num_recomputed(units, kept[stage]) / units);
    }
    if (again == before) shares_.pop_back();  // for a rounding: the same Program
    shares_.push_back({first, ladder.predict(again)});
    before = std::move(again);
  }
}

int RotorShares::largest_within(Bytes budget) {
  const auto fits = [&](int n) {
    RotorShare& share = shares_[n];
    if (share.peak == 0) compile_share(share);
    return share.peak <= budget;
  };
  if (shares_.empty() || !fits(0)) return -1;
  int low = 0, high = static_cast<int>(shares_.size());
  while (high - low > 1) {
    // The largest first: where all fits there is no more to try.
    const int at = high == std::ssize(shares_) ? high - 1 : (low + high) / 2;
    (fits(at) ? low : high) = at;
  }
  return low;
}

RecomputeConfig RotorShares::recompute(const RotorShare& share) const {
  RecomputeConfig out;
  out.method = RecomputeConfig::Method::kStageAware;
  out.first = share.first;
  return out;
}

const Program& RotorShares::compile_share(RotorShare& share) {
  const Program* program = program_with(recompute(share), prepared_, study_, compiler_);
  check(program != nullptr, "what recomputes all layers has a Program");
  if (share.peak == 0) share.peak = largest_peak(peaks_of(prepared_, study_, *program));
  return *program;
}

}  // namespace trainyard
