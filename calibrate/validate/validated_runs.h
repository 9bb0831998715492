// The published runs that validate scores, with what they use and how far off their step times are,
// as a table: calibrate/published/ has one beside each list of cases, as `validate LIST --out`
// writes it. So an answer says which of them it resembles without predicting them again.
#pragma once

#include <string>
#include <vector>

#include "calibrate/validate/validation.h"
#include "report/resemblance.h"

namespace trainyard {

/// A header, and one line per scored step time: id, error in per cent to two digits, features.
std::string validated_runs_csv(const Validation& validation);

/// Throws ConfigError at a cell that is none of these.
std::vector<ScoredCase> read_validated_runs(const std::string& text, const std::string& file);

}  // namespace trainyard
