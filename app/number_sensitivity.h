// What the fitted numbers of the software profiles rest on, for `trainyard validate --sensitivity`:
// derivatives by one more prediction of each row for each number, as a fit's first Jacobian.
#pragma once

#include <vector>

#include "app/predict_case.h"
#include "calibrate/validate/sensitivity.h"
#include "calibrate/validate/validation.h"

namespace trainyard {

/// `outcomes`: of `cases`, one each. Suspect and skipped cases do not count.
Sensitivity number_sensitivity(const std::vector<PublishedCase>& cases,
                               const std::vector<CaseOutcome>& outcomes,
                               const PredictOptions& options, int jobs);

}  // namespace trainyard
