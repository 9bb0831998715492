#include "app/validate_command.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "app/commands.h"
#include "app/number_sensitivity.h"
#include "app/published_runs.h"
#include "app/select_cases.h"
#include "calibrate/validate/validated_runs.h"
#include "engine/base/error.h"
#include "engine/base/user_text.h"
#include "system/data_root.h"
#include "system/exit_code.h"
#include "system/output_folder.h"
#include "system/run_points.h"
#include "system/terminal.h"

namespace trainyard {

namespace {

/// An option that no case could take is the command line's fault, not each case's.
void check_options(const PredictOptions& options) {
  for (const std::string& assignment : options.sets) {
    YamlNode::parse("{}", "").set(assignment);
  }
  const std::string& fidelity = options.fidelity;
  if (!fidelity.empty() && fidelity != "analytic" && fidelity != "fluid" && fidelity != "step") {
    throw ConfigError("--fidelity: unknown fidelity " + in_quotes(fidelity) +
                      "; this version has analytic, fluid and step");
  }
}

Prediction prediction_of(const PointAnswer& answer, const CaseFacts& facts) {
  if (answer.failure.empty()) return prediction_from_text(answer.text);
  Prediction failed;
  failed.cause = SkipCause::kFailure;
  failed.reason = answer.failure;
  failed.skipped = facts.place + ": " + answer.failure;
  return failed;
}

/// Whether any case could be predicted, as of a sweep's points.
int exit_of(const Validation& validation) {
  const auto any = [&](const auto& holds) {
    return std::any_of(validation.outcomes.begin(), validation.outcomes.end(),
                       [&](const CaseOutcome& outcome) { return holds(outcome.prediction); });
  };
  if (any([](const Prediction& p) { return p.skipped.empty(); })) return kDone;
  if (any([](const Prediction& p) { return p.cause == SkipCause::kPlan; })) return kCannotRun;
  if (any([](const Prediction& p) { return p.cause == SkipCause::kFailure; }))
    return kBackendFailed;
  return kWrongInput;
}

}  // namespace

Validation validate_cases(const std::string& path, const PredictOptions& options, int jobs,
                          const std::vector<std::string>& selections, bool sensitivity) {
  check_options(options);
  const std::vector<PublishedCase> cases = select_cases(read_cases(path), selections);
  std::vector<std::string> warnings;
  const StudyResolvers resolvers = make_resolvers(data_root(), warnings);
  const auto answers = run_points(
      cases.size(),
      [&](std::size_t i) {
        warnings.clear();
        Prediction prediction = predict_case(cases[i], options, resolvers);
        prediction.warnings.insert(prediction.warnings.end(), warnings.begin(), warnings.end());
        return to_text(prediction);
      },
      {jobs, "cases"});
  const std::vector<ScoredCase> published = published_runs(data_root());
  std::vector<CaseOutcome> outcomes;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    outcomes.push_back({cases[i].facts, prediction_of(answers[i], cases[i].facts)});
    CaseOutcome& one = outcomes.back();
    if (one.prediction.skipped.empty())
      one.resembles = find_resemblance(one.prediction.features, published, one.facts.id);
  }
  std::optional<Sensitivity> of_numbers;
  if (sensitivity) of_numbers = number_sensitivity(cases, outcomes, options, jobs);
  Validation validation = validate(path, std::move(outcomes));
  validation.sensitivity = std::move(of_numbers);
  return validation;
}

int run_validate(const ValidateOptions& options) {
  std::optional<OutputFolder> folder;
  if (!options.out.empty())
    folder.emplace(options.out, WrittenBy{"validate", options.cases}, options.overwrite);
  const Validation validation =
      validate_cases(options.cases, {options.sets, options.fidelity}, options.jobs,
                     options.selections, options.sensitivity);
  std::string json = validation_json(validation);
  if (folder) {
    json = folder->marked_json(json);
    folder->write("summary.json", json);
    folder->write("cases.csv", validation_csv(validation));
    folder->write("validated.csv", validated_runs_csv(validation));
    folder->write("report.html", validation_report(validation));
    folder->commit();
  }
  if (options.json)
    print_answer(json);
  else
    print_text(validation_text(validation));
  return exit_of(validation);
}

}  // namespace trainyard
