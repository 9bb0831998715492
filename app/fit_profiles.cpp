#include "app/fit_profiles.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "app/fit_problem.h"
#include "app/fit_progress.h"
#include "app/select_cases.h"
#include "calibrate/validate/robust_fit.h"
#include "engine/base/error.h"
#include "engine/base/user_text.h"
#include "system/data_root.h"
#include "system/files.h"
#include "system/run_points.h"

namespace trainyard {

const std::vector<std::string> kFitSelections = {
    "framework=megatron-lm,megatron-deepspeed,nemo", "training.precision=fp32,fp16,bf16",
    "parallel.context=1,null", "schedule=1f1b,interleaved,null"};

namespace {

constexpr double kNoEffect =
    1e-7;  // |d residual / d ln(value)| of a row that does not depend on it
constexpr double kLeastGain = 1e-5;
// Without a family. Each step predicts most rows again.
constexpr int kRefitSteps = 4;
constexpr double kLeastRefitGain = 1e-3;

/// Statistics of residuals of one kind for which `take` holds.
template <typename Take>
ErrorStats stats_of(const FitProblem& problem, const std::vector<double>& residuals, bool memory,
                    const Take& take) {
  std::vector<NamedError> errors;
  for (std::size_t r = 0; r < residuals.size(); ++r) {
    if (problem.list()[r].memory != memory || !take(r)) continue;
    errors.push_back(
        {problem.rows()[problem.list()[r].row].id, 100 * (std::exp(residuals[r]) - 1)});
  }
  return error_stats(errors);
}

std::vector<std::string> families_of(const std::vector<FitRow>& rows) {
  std::vector<std::string> out;
  for (const FitRow& row : rows) {
    if (std::find(out.begin(), out.end(), row.family) == out.end()) out.push_back(row.family);
  }
  return out;
}

bool depends(const Matrix& jacobian, std::size_t residual, std::size_t parameter) {
  return std::abs(jacobian[residual][parameter]) > kNoEffect;
}

/// Which rows and families a parameter rests on.
void describe(const FitProblem& problem, const Matrix& jacobian, std::size_t p,
              FittedParameter& out) {
  std::vector<std::pair<std::string, double>> weights;
  for (std::size_t r = 0; r < jacobian.size(); ++r) {
    if (!depends(jacobian, r, p)) continue;
    ++out.rows;
    const std::string& family = problem.family_of(r);
    auto at = std::find_if(weights.begin(), weights.end(),
                           [&](const auto& w) { return w.first == family; });
    if (at == weights.end()) at = weights.insert(at, {family, 0});
    at->second += jacobian[r][p] * jacobian[r][p];
  }
  out.families = weights.size();
  if (weights.empty() || (weights.size() > 1 && !out.parameter.range.one_source)) return;
  out.only_family =
      std::max_element(weights.begin(), weights.end(), [](const auto& a, const auto& b) {
        return a.second < b.second;
      })->first;
}

std::vector<ProfileFit::File> written_profiles(const std::vector<FreeParameter>& parameters,
                                               const std::vector<double>& values) {
  std::vector<ProfileFit::File> files;
  for (const FreeParameter& parameter : parameters) {
    for (const ParameterPlace& place : parameter.places) {
      const std::string name = place.profile + ".yaml";
      if (std::any_of(files.begin(), files.end(),
                      [&](const auto& file) { return file.name == name; }))
        continue;
      files.push_back(
          {name, with_values(read_file(place.path), place.profile, parameters, values)});
    }
  }
  return files;
}

/// The rows that count, and in `fit` how many do not.
std::vector<FitRow> scored_rows(const Predictor& predictor, ProfileFit& fit) {
  const std::vector<Prediction> first = predictor.first();
  std::vector<FitRow> rows;
  fit.num_cases = first.size();
  for (std::size_t i = 0; i < first.size(); ++i) {
    const CaseFacts& facts = predictor.cases()[i].facts;
    if (!first[i].skipped.empty()) {
      ++fit.skipped;
    } else if (!facts.suspect.empty()) {
      ++fit.suspect;
    } else {
      rows.push_back(fit_row(i, facts, first[i]));
    }
  }
  if (rows.empty())
    throw ConfigError("none of the selected cases can be predicted and is not suspect");
  return rows;
}

/// What `fit_profiles` works with once the shared optimum is known.
struct Optimum {
  LogValues logs;                 // of the values as written
  std::vector<double> residuals;  // of all rows, left-out ones too
  Matrix jacobian;
};

/// Rows of `family` alone, or of all others.
std::vector<FitRow> rows_of(const FitProblem& problem, const std::string& family, bool its_own) {
  std::vector<FitRow> rows;
  for (const FitRow& row : problem.rows()) {
    if ((row.family == family) == its_own) rows.push_back(row);
  }
  return rows;
}

/// The parameters that fit all families but one: from the common optimum, with its Jacobian (and
/// what Broyden's updates make of it), a few steps. Those that rest on this family alone stay.
LogValues refitted_without(const std::string& family, const Predictor& predictor,
                           const FitProblem& problem, const Optimum& optimum,
                           std::vector<Bounds> bounds,
                           const std::vector<FittedParameter>& parameters) {
  const FitProblem others(predictor, rows_of(problem, family, false));
  if (others.rows().empty()) return optimum.logs;
  Matrix jacobian;
  for (std::size_t r = 0; r < problem.list().size(); ++r) {
    if (problem.family_of(r) != family) jacobian.push_back(optimum.jacobian[r]);
  }
  const std::vector<Prior> priors = priors_of(bounds);
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    if (parameters[p].only_family == family) bounds[p] = {optimum.logs[p], optimum.logs[p]};
  }
  FitOptions options;
  options.max_iterations = kRefitSteps;
  options.least_gain = kLeastRefitGain;
  options.priors = priors;
  return robust_fit(
             optimum.logs, bounds, [&](const LogValues& logs) { return others.residuals(logs); },
             [&](const LogValues&, const std::vector<double>&) { return jacobian; }, options)
      .parameters;
}

/// Predicts `family` with the parameters `logs`, and notes its errors. A row that depends on a
/// parameter that rests on this family alone does not count.
void hold_out(const Predictor& predictor, const FitProblem& problem, const Optimum& optimum,
              const LogValues& logs, const std::vector<FittedParameter>& parameters,
              FittedFamily& family, std::vector<double>& held_out, std::vector<bool>& counted) {
  const FitProblem own(predictor, rows_of(problem, family.family, true));
  const std::vector<double> residuals = own.residuals(logs);
  std::vector<bool> own_counted(residuals.size(), true);
  std::size_t k = 0;
  for (std::size_t r = 0; r < problem.list().size(); ++r) {
    if (problem.family_of(r) != family.family) continue;
    bool counts = true;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      if (parameters[p].only_family != family.family) continue;
      counts = counts && !depends(optimum.jacobian, r, p);
    }
    // Both lists have times first, then memory, each in the order of the rows.
    own_counted[k] = counts;
    held_out[r] = residuals[k++];
    counted[r] = counts;
    if (!counts && !problem.list()[r].memory) ++family.own_rows;
  }
  const auto take = [&](std::size_t r) { return own_counted[r]; };
  family.held_out = stats_of(own, residuals, false, take);
  family.memory_held_out = stats_of(own, residuals, true, take);
}

/// The values that the files will hold, of a fit's result; says which parameters are at a bound.
std::vector<double> take_values(const FitResult& result,
                                const std::vector<FreeParameter>& parameters,
                                const std::vector<Bounds>& bounds, ProfileFit& fit) {
  std::vector<double> values;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const bool moved = result.parameters[p] != std::log(parameters[p].value);
    FittedParameter& one = fit.parameters.emplace_back();
    one.parameter = parameters[p];
    one.value = moved ? rounded_value(std::exp(result.parameters[p])) : parameters[p].value;
    one.at_bound =
        moved && (result.parameters[p] <= bounds[p].low || result.parameters[p] >= bounds[p].high);
    values.push_back(one.value);
  }
  return values;
}

/// All rows but those of the family that is left out.
std::vector<FitRow> rows_to_fit(const FitProblem& all, const std::string& leave_out) {
  std::vector<FitRow> rows = all.rows();
  if (leave_out.empty()) return rows;
  std::erase_if(rows, [&](const FitRow& row) { return row.family == leave_out; });
  if (rows.size() == all.rows().size()) {
    std::vector<std::string> known;
    for (const std::string& family : families_of(all.rows())) known.push_back(in_quotes(family));
    throw ConfigError("--leave-out: no row is of the family " + in_quotes(leave_out) +
                      "; there are " + join_words(known));
  }
  if (rows.empty())
    throw ConfigError("--leave-out: every row is of this family; none is left to fit to");
  return rows;
}

/// Predicts families from values that were fitted without them: each in turn, or the one that is
/// left out.
void hold_out_families(Predictor& predictor, const FitProblem& all, Optimum& optimum,
                       const std::vector<Bounds>& bounds, const FitProfilesOptions& options,
                       ProfileFit& fit, FitProgress& progress) {
  std::vector<double> held_out(all.list().size(), 0);
  std::vector<bool> counted(all.list().size(), false);
  if (!options.leave_one_out) {
    // What no other row determines still has the value that the profile gave it.
    optimum.jacobian = all.jacobian(optimum.logs, optimum.residuals, bounds);
    for (FittedParameter& parameter : fit.parameters) {
      if (parameter.rows == 0) parameter.only_family = options.leave_out;
    }
  }
  const std::size_t rounds = options.leave_one_out ? fit.families.size() : 1;
  std::size_t round = 0;
  for (FittedFamily& family : fit.families) {
    if (!options.leave_one_out && family.family != options.leave_out) continue;
    progress.leaving_out(round++, rounds, family.family);
    const LogValues logs = options.leave_one_out ? refitted_without(family.family, predictor, all,
                                                                    optimum, bounds, fit.parameters)
                                                 : optimum.logs;
    hold_out(predictor, all, optimum, logs, fit.parameters, family, held_out, counted);
  }
  progress.leaving_out(round, rounds, "");
  const auto held = [&](std::size_t r) { return counted[r]; };
  fit.held_out = stats_of(all, held_out, false, held);
  fit.memory_held_out = stats_of(all, held_out, true, held);
}

/// What fit_profiles() does, with what it has so far in `fit` and `best` where a signal ends it.
void fit_all(Predictor& predictor, const FitProfilesOptions& options, ProfileFit& fit,
             std::optional<FitResult>& best) {
  FitProgress progress(FitProgress::to_stderr());
  predictor.show_with(progress.state());
  const std::vector<FreeParameter>& parameters = predictor.parameters();
  if (parameters.empty())
    throw ConfigError("no software profile has an entry of kind fitted: there is nothing to fit");

  const FitProblem all(predictor, scored_rows(predictor, fit));
  const FitProblem problem(predictor, rows_to_fit(all, options.leave_out));

  LogValues start;
  for (const FreeParameter& parameter : parameters) start.push_back(std::log(parameter.value));
  const std::vector<Bounds> bounds = bounds_of(parameters);
  const auto any = [](std::size_t) { return true; };
  const std::vector<double> before = problem.residuals(start);
  fit.before = stats_of(problem, before, false, any);
  fit.memory_before = stats_of(problem, before, true, any);
  FitOptions how;
  how.least_gain = kLeastGain;
  how.priors = priors_of(bounds);
  how.progress = [&](int iteration, double loss) {
    progress.iteration(iteration, how.max_iterations, loss);
  };
  how.improved = [&](const FitResult& there) {
    best = there;
    fit.iterations = there.iterations;
    fit.after = stats_of(problem, there.residuals, false, any);
    fit.memory_after = stats_of(problem, there.residuals, true, any);
  };
  const FitResult result = robust_fit(
      start, bounds, [&](const LogValues& logs) { return problem.residuals(logs); },
      [&](const LogValues& logs, const std::vector<double>& there) {
        return problem.jacobian(logs, there, bounds);
      },
      how);
  fit.iterations = result.iterations;

  // From here on with the values that the files will hold.
  const std::vector<double> values = take_values(result, parameters, bounds, fit);
  Optimum optimum;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    optimum.logs.push_back(std::log(values[p]));
    describe(problem, result.jacobian, p, fit.parameters[p]);
  }
  fit.files = written_profiles(parameters, values);
  optimum.residuals = all.residuals(optimum.logs);
  const auto fitted_to = [&](std::size_t r) { return all.family_of(r) != options.leave_out; };
  fit.after = stats_of(all, optimum.residuals, false, fitted_to);
  fit.memory_after = stats_of(all, optimum.residuals, true, fitted_to);

  for (const std::string& name : families_of(all.rows())) {
    FittedFamily& family = fit.families.emplace_back();
    family.family = name;
    const auto own = [&](std::size_t r) { return all.family_of(r) == name; };
    family.in_sample = stats_of(all, optimum.residuals, false, own);
    family.memory = stats_of(all, optimum.residuals, true, own);
  }
  if (!options.leave_one_out && options.leave_out.empty()) return;

  optimum.jacobian = result.jacobian;
  hold_out_families(predictor, all, optimum, bounds, options, fit, progress);
}

std::vector<PublishedCase> cases_to_fit(const std::string& path,
                                        const FitProfilesOptions& options) {
  std::vector<PublishedCase> cases = read_cases(path);
  if (!options.selections.empty()) return select_cases(std::move(cases), options.selections);
  try {
    return select_cases(std::move(cases), kFitSelections);
  } catch (const ConfigError& none) {
    throw ConfigError(std::string(none.what()) +
                      " (what is fitted where no --select says other cases)");
  }
}

}  // namespace

ProfileFit fit_profiles(const std::string& path, const FitProfilesOptions& options) {
  Predictor predictor(cases_to_fit(path, options), free_parameters(data_root()), options.predict,
                      options.jobs);
  ProfileFit fit;
  std::optional<FitResult> best;
  try {
    fit_all(predictor, options, fit, best);
  } catch (const Interrupted& by) {
    if (!best) throw;
    fit.signal = by.signal;
    if (fit.parameters.empty()) {
      const auto& parameters = predictor.parameters();
      fit.files =
          written_profiles(parameters, take_values(*best, parameters, bounds_of(parameters), fit));
    }
  }
  return fit;
}

}  // namespace trainyard
