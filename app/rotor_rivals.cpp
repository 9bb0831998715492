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

/// Its share is chosen by the memory of an order that is there already.
bool has_shares(const Study& study) {
  return study.parallel.pipeline > 1 &&
         !(is_searched_schedule(study.schedule.method) && study.schedule.rows.empty());
}

}  // namespace

std::vector<RotorRival> rotor_rivals(const Prepared& prepared, const Study& study, Bytes budget,
                                     bool cores) {
  std::vector<RotorRival> out;
  const auto add = [&](Method method, const std::string& name, int every = 1) {
    Study other = study;
    other.recompute = {};
    other.recompute.method = method;
    other.recompute.every = every;
    if (method == Method::kStageAware) choose_share(prepared, other, budget);
    PassLog log;
    const auto program = program_of(prepared, other, log);
    if (!program) return;
    RotorRival rival{other.recompute, name};
    for (const MemoryPeak& peak : peaks_of(prepared, other, *program))
      rival.peak = std::max(rival.peak, peak.total);
    if (rival.peak <= budget) rival.step = simulated_step(prepared, other, *program);
    out.push_back(std::move(rival));
  };
  if (cores) add(Method::kSelective, "selective, the cores of attention");
  add(Method::kFull, "full, every layer from its input");
  for (const int every : {2, 3, 4})
    add(Method::kFull, "full, one of " + std::to_string(every) + " layers from its input", every);
  if (has_shares(study)) add(Method::kStageAware, "stage-aware, fewer layers on later stages");
  return out;
}

}  // namespace trainyard
