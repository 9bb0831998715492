#include "engine/planner/search_recompute.h"

#include "engine/base/format.h"
#include "engine/base/quantity.h"
#include "engine/recompute/stage_aware.h"

namespace trainyard {

namespace {

struct Trial {
  double first = 0;
  EvaluatedShare needs;
};

std::string text(const Trial& trial) {
  return format("%.2f GiB on pipeline rank %zu", static_cast<double>(trial.needs.peak) / kGiB,
                trial.needs.rank);
}

std::string reason(const Trial& found, const std::optional<Trial>& too_much, Bytes capacity) {
  const std::string of = format(" of %.2f", static_cast<double>(capacity) / kGiB);
  if (found.needs.peak > capacity)
    return "auto: even a share of 0 takes " + text(found) + of + ", more than there is";
  std::string why = "auto: the largest share that fits, " + text(found) + of;
  if (too_much) why += "; " + number_text(too_much->first) + " would take " + text(*too_much);
  return why;
}

}  // namespace

ShareChoice search_recompute(const EvaluateShare& evaluate, Bytes capacity,
                             bool shifted_critical_path) {
  const auto least = evaluate(0);
  if (!least) return {0, "auto: there is no Program"};
  Trial found{0, *least};
  std::optional<Trial> too_much;
  if (found.needs.peak <= capacity) {
    const std::vector<double> steps = first_share_steps(found.needs.units, shifted_critical_path);
    std::size_t low = 0, high = steps.size();  // low fits; high, where it is a step, does not
    while (high - low > 1) {
      // The largest first: where all fits there is no more to try.
      const std::size_t at = high == steps.size() ? high - 1 : (low + high) / 2;
      const auto needs = evaluate(steps[at]);
      Trial trial{steps[at], needs.value_or(EvaluatedShare{})};
      const bool fits = trial.needs.peak <= capacity;
      (fits ? low : high) = at;
      if (fits) {
        found = trial;
      } else {
        too_much = trial;
      }
    }
  }
  return {found.first, reason(found, too_much, capacity)};
}

}  // namespace trainyard
