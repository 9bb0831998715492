#include "app/number_sensitivity.h"

#include <cmath>
#include <utility>

#include "app/fit_problem.h"
#include "system/data_root.h"

namespace trainyard {

namespace {

std::vector<FitRow> scored_rows(const std::vector<CaseOutcome>& outcomes) {
  std::vector<FitRow> rows;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const CaseFacts& facts = outcomes[i].facts;
    const Prediction& prediction = outcomes[i].prediction;
    if (!prediction.skipped.empty() || !facts.suspect.empty()) continue;
    rows.push_back(fit_row(i, facts, prediction));
  }
  return rows;
}

double log_error(const FitRow& row, bool memory, const CaseOutcome& outcome) {
  const Prediction& p = outcome.prediction;
  return memory ? std::log(memory_of(p, outcome.facts.memory_kind) / *row.memory)
                : std::log(p.iteration_time / *row.time);
}

}  // namespace

Sensitivity number_sensitivity(const std::vector<PublishedCase>& cases,
                               const std::vector<CaseOutcome>& outcomes,
                               const PredictOptions& options, int jobs) {
  const Predictor predictor(cases, free_parameters(data_root()), options, jobs);
  const FitProblem problem(predictor, scored_rows(outcomes));
  const std::vector<Bounds> bounds = bounds_of(predictor.parameters());
  const std::vector<Prior> priors = priors_of(bounds);
  LogValues logs;
  std::vector<FittedNumber> numbers;
  for (std::size_t p = 0; p < bounds.size(); ++p) {
    const FreeParameter& parameter = predictor.parameters()[p];
    FittedNumber& number = numbers.emplace_back();
    number.name = parameter.name;
    for (const ParameterPlace& place : parameter.places) number.profiles.push_back(place.profile);
    number.value = parameter.value;
    number.bounds = bounds[p];
    number.prior = priors[p];
    logs.push_back(std::log(parameter.value));
  }
  std::vector<double> there;
  for (const FitResidual& residual : problem.list()) {
    const FitRow& row = problem.rows()[residual.row];
    there.push_back(log_error(row, residual.memory, outcomes[row.at]));
  }
  Matrix jacobian = problem.jacobian(logs, there, bounds);
  std::vector<SensitiveRow> rows;
  for (std::size_t r = 0; r < there.size(); ++r) {
    const FitRow& row = problem.rows()[problem.list()[r].row];
    rows.push_back(
        {row.id, row.family, problem.list()[r].memory, there[r], std::move(jacobian[r])});
  }
  return find_sensitivity(numbers, std::move(rows));
}

}  // namespace trainyard
