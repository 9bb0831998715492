#include "app/choose_share.h"

#include <algorithm>
#include <optional>

#include "app/analytic_step.h"
#include "engine/base/place_of.h"
#include "study/study_origin.h"

namespace trainyard {

namespace {

std::optional<EvaluatedShare> evaluate_share(const Prepared& prepared, Study study, double first,
                                             Compiler& compiler) {
  study.recompute.first = first;
  PassLog log;
  const Program* program = program_of(prepared, study, log, compiler);
  if (program == nullptr) return std::nullopt;
  const auto peaks = peaks_of(prepared, study, *program);
  const auto largest = std::max_element(
      peaks.begin(), peaks.end(), [](const auto& a, const auto& b) { return a.total < b.total; });
  return EvaluatedShare{log.units, length_between(peaks.begin(), largest), largest->total};
}

}  // namespace

ShareChoice choose_share(const Prepared& prepared, Study& study, Bytes capacity) {
  Compiler compiler({.recomputations = true, .candidates = true});
  ShareChoice choice = search_recompute(
      [&](double first) { return evaluate_share(prepared, study, first, compiler); }, capacity,
      study.schedule.method == "scp");
  study.recompute.first = choice.first;
  study.origins["recompute.first"] = derived_origin(choice.reason);
  return choice;
}

}  // namespace trainyard
