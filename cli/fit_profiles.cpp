#include "cli/fit_profiles.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <utility>

#include "cli/data_root.h"
#include "cli/fit_problem.h"
#include "cli/select_cases.h"
#include "engine/base/error.h"
#include "engine/config/user_text.h"
#include "engine/validate/robust_fit.h"

namespace trainyard {

const std::vector<std::string> kFitSelections = {
    "framework=megatron-lm,megatron-deepspeed,nemo", "training.precision=fp32,fp16,bf16",
    "parallel.context=1,null", "schedule=1f1b,interleaved,null"};

namespace {

constexpr double kNoEffect =
    1e-7;  // |d residual / d ln(value)| below it: the row does not depend on it

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

std::string read_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw ConfigError(path + ": cannot be read");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
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
          {name, with_values(read_whole(place.path), place.profile, parameters, values)});
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
      SoftwareProfile named;
      named.name = first[i].framework;
      named.version = first[i].framework_version;
      rows.push_back({i, profile_key(named), facts.family, facts.id, facts.iteration_time,
                      facts.peak_memory_gib});
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

/// Predicts `family` with parameters that have not seen it, and notes its errors.
void hold_out(const Predictor& predictor, const FitProblem& problem, const Optimum& optimum,
              const std::vector<Bounds>& bounds, bool refit, FittedFamily& family,
              const std::vector<FittedParameter>& parameters, std::vector<double>& held_out,
              std::vector<bool>& counted) {
  std::vector<bool> included, free;
  for (std::size_t r = 0; r < problem.list().size(); ++r)
    included.push_back(problem.family_of(r) != family.family);
  for (const FittedParameter& parameter : parameters)
    free.push_back(parameter.only_family != family.family);
  LogValues logs = optimum.logs;
  if (refit) {
    logs = linear_fit(optimum.logs, optimum.residuals, optimum.jacobian, included, free, bounds,
                      FitOptions{}.threshold);
  }
  std::vector<FitRow> rows;
  for (const FitRow& row : problem.rows()) {
    if (row.family == family.family) rows.push_back(row);
  }
  const FitProblem own(predictor, rows);
  const std::vector<double> residuals = own.residuals(logs);
  std::vector<bool> own_counted(residuals.size(), true);
  std::size_t k = 0;
  for (std::size_t r = 0; r < included.size(); ++r) {
    if (included[r]) continue;
    bool counts = true;
    for (std::size_t p = 0; p < parameters.size(); ++p)
      counts = counts && (free[p] || !depends(optimum.jacobian, r, p));
    // Both lists have times first, then memory, each in the order of the rows.
    own_counted[k] = counts;
    held_out[r] = residuals[k++];
    counted[r] = counts;
    if (!counts && !problem.list()[r].memory) ++family.own_rows;
  }
  family.held_out = stats_of(own, residuals, false, [&](std::size_t r) { return own_counted[r]; });
  family.memory_held_out =
      stats_of(own, residuals, true, [&](std::size_t r) { return own_counted[r]; });
}

}  // namespace

ProfileFit fit_profiles(const std::string& path, const FitProfilesOptions& options) {
  ProfileFit fit;
  const Predictor predictor(
      select_cases(read_cases(path),
                   options.selections.empty() ? kFitSelections : options.selections),
      free_parameters(data_root()), options.predict, options.jobs);
  const std::vector<FreeParameter>& parameters = predictor.parameters();
  if (parameters.empty())
    throw ConfigError("no software profile has an entry of kind fitted: there is nothing to fit");

  const FitProblem all(predictor, scored_rows(predictor, fit));
  std::vector<FitRow> fitted_rows = all.rows();
  if (!options.leave_out.empty()) {
    std::erase_if(fitted_rows, [&](const FitRow& row) { return row.family == options.leave_out; });
    if (fitted_rows.size() == all.rows().size()) {
      std::vector<std::string> known;
      for (const std::string& family : families_of(all.rows())) known.push_back(quoted(family));
      throw ConfigError("--leave-out: no row is of the family " + quoted(options.leave_out) +
                        "; there are " + join_words(known));
    }
    if (fitted_rows.empty())
      throw ConfigError("--leave-out: every row is of this family; none is left to fit to");
  }
  const FitProblem problem(predictor, fitted_rows);

  LogValues start;
  std::vector<Bounds> bounds;
  for (const FreeParameter& parameter : parameters) {
    start.push_back(std::log(parameter.value));
    bounds.push_back({std::log(parameter.range.low), std::log(parameter.range.high)});
  }
  const auto any = [](std::size_t) { return true; };
  const std::vector<double> before = problem.residuals(start);
  fit.before = stats_of(problem, before, false, any);
  fit.memory_before = stats_of(problem, before, true, any);
  FitOptions how;
  how.progress = [](int iteration, double loss) {
    std::fprintf(stderr, "iteration %d: loss %.6g\n", iteration, loss);
  };
  const FitResult result = robust_fit(
      start, bounds, [&](const LogValues& logs) { return problem.residuals(logs); },
      [&](const LogValues& logs, const std::vector<double>& there) {
        return problem.jacobian(logs, there, bounds);
      },
      how);
  fit.iterations = result.iterations;

  // From here on with the values that the files will hold.
  std::vector<double> values;
  Optimum optimum;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const bool moved = result.parameters[p] != start[p];
    values.push_back(moved ? rounded_value(std::exp(result.parameters[p])) : parameters[p].value);
    optimum.logs.push_back(std::log(values.back()));
    FittedParameter& one = fit.parameters.emplace_back();
    one.parameter = parameters[p];
    one.value = values[p];
    one.at_bound =
        moved && (result.parameters[p] <= bounds[p].low || result.parameters[p] >= bounds[p].high);
    describe(problem, result.jacobian, p, one);
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
  if (!options.leave_one_out && options.leave_out.empty()) return fit;

  std::vector<double> held_out(all.list().size(), 0);
  std::vector<bool> counted(all.list().size(), false);
  optimum.jacobian = result.jacobian;
  if (!options.leave_one_out) {
    // What no other row determines still has the value that the profile gave it.
    optimum.jacobian = all.jacobian(optimum.logs, optimum.residuals, bounds);
    for (FittedParameter& parameter : fit.parameters) {
      if (parameter.rows == 0) parameter.only_family = options.leave_out;
    }
  }
  for (FittedFamily& family : fit.families) {
    if (!options.leave_one_out && family.family != options.leave_out) continue;
    hold_out(predictor, all, optimum, bounds, options.leave_one_out, family, fit.parameters,
             held_out, counted);
  }
  const auto held = [&](std::size_t r) { return counted[r]; };
  fit.held_out = stats_of(all, held_out, false, held);
  fit.memory_held_out = stats_of(all, held_out, true, held);
  return fit;
}

}  // namespace trainyard
