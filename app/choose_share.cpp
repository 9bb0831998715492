#include "app/choose_share.h"

#include <algorithm>
#include <optional>

#include "app/analytic_step.h"
#include "engine/base/place_of.h"
#include "study/study_origin.h"

namespace trainyard {

namespace {

std::optional<EvaluatedShare> evaluate_share(const Prepared& prepared, Study study, double first) {
  study.recompute.first = first;
  PassLog log;
  const auto program = program_of(prepared, study, log);
  if (!program) return std::nullopt;
  const auto peaks = peaks_of(prepared, study, *program);
  const auto largest = std::max_element(
      peaks.begin(), peaks.end(), [](const auto& a, const auto& b) { return a.total < b.total; });
  return EvaluatedShare{log.units, length_between(peaks.begin(), largest), largest->total};
}

}  // namespace

ShareChoice choose_share(const Prepared& prepared, Study& study, Bytes capacity) {
  ShareChoice choice =
      search_recompute([&](double first) { return evaluate_share(prepared, study, first); },
                       capacity, study.schedule.method == "scp");
  study.recompute.first = choice.first;
  study.origins["recompute.first"] = derived_origin(choice.reason);
  return choice;
}

}  // namespace trainyard
