#include "app/search_recompute.h"

#include <algorithm>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/base/format.h"
#include "engine/base/quantity.h"
#include "engine/memory/memory.h"
#include "engine/recompute/stage_aware.h"
#include "study/compile_study.h"
#include "study/study_origin.h"

namespace trainyard {

namespace {

/// What a share of stage 0 needs.
struct Trial {
  double first = 0;
  std::vector<int> units;  // PassLog's; empty: the study has no Program
  std::size_t rank = 0;    // with the largest peak
  Bytes peak = 0;
};

Trial try_share(Prepared& prepared, double first) {
  Trial trial{first, {}, 0, 0};
  prepared.study.recompute.first = first;
  PassLog log;
  const auto compiled = compile(prepared.model, prepared.study, prepared.software, log);
  const auto* program = std::get_if<Program>(&compiled);
  if (program == nullptr) return trial;
  trial.units = log.units;
  const auto peaks =
      memory_peaks(*program, fixed_memory(prepared.software, prepared.study.training.precision));
  const auto largest = std::max_element(
      peaks.begin(), peaks.end(), [](const auto& a, const auto& b) { return a.total < b.total; });
  trial.rank = static_cast<std::size_t>(largest - peaks.begin());
  trial.peak = largest->total;
  return trial;
}

std::string text(const Trial& trial) {
  return format("%.2f GiB on pipeline rank %zu", static_cast<double>(trial.peak) / kGiB,
                trial.rank);
}

std::string reason(const Trial& found, const std::optional<Trial>& too_much, Bytes capacity) {
  const std::string of = format(" of %.2f", static_cast<double>(capacity) / kGiB);
  if (found.peak > capacity)
    return "auto: even a share of 0 takes " + text(found) + of + ", more than there is";
  std::string why = "auto: the largest share that fits, " + text(found) + of;
  if (too_much) why += "; " + number_text(too_much->first) + " would take " + text(*too_much);
  return why;
}

}  // namespace

void search_recompute(Prepared& prepared) {
  Study& study = prepared.study;
  if (study.recompute.method != RecomputeConfig::Method::kStageAware || study.recompute.first)
    return;
  const Bytes capacity = prepared.hardware.memory_capacity - prepared.hardware.memory_reserved;
  Trial found = try_share(prepared, 0);
  std::optional<Trial> too_much;
  if (!found.units.empty() && found.peak <= capacity) {
    const std::vector<double> steps =
        first_share_steps(found.units, study.schedule.method == "scp");
    std::size_t low = 0, high = steps.size();  // low fits; high, where it is a step, does not
    while (high - low > 1) {
      // The largest first: where all fits there is no more to try.
      const std::size_t at = high == steps.size() ? high - 1 : (low + high) / 2;
      Trial trial = try_share(prepared, steps[at]);
      const bool fits = trial.peak <= capacity;
      (fits ? low : high) = at;
      if (fits) {
        found = std::move(trial);
      } else {
        too_much = std::move(trial);
      }
    }
  }
  study.recompute.first = found.first;
  study.origins["recompute.first"] = derived_origin(
      found.units.empty() ? "auto: there is no Program" : reason(found, too_much, capacity));
}

}  // namespace trainyard
