#include "app/fit_problem.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "engine/base/error.h"
#include "study/compile_study.h"
#include "system/data_root.h"
#include "system/interrupt.h"
#include "system/run_points.h"

namespace trainyard {

namespace {

constexpr double kStep = 0.02;  // of ln(value), for differences

/// Standard deviation of ln(predicted / measured) where everything is known: equal runs at equal
/// sites differ by up to 15 %, by 3.7 % in the median (calibrate/published/README.md).
constexpr double kNoise = 0.07;

void apply(const std::vector<FreeParameter>& parameters, const LogValues& logs,
           SoftwareProfile& software) {
  const std::string key = profile_key(software);
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    for (const ParameterPlace& place : parameters[p].places) {
      if (place.profile == key) software.*parameters[p].number.value = std::exp(logs[p]);
    }
  }
}

bool concerns(const FreeParameter& parameter, const std::string& profile) {
  return std::any_of(parameter.places.begin(), parameter.places.end(),
                     [&](const ParameterPlace& place) { return place.profile == profile; });
}

std::vector<FitResidual> residuals_of(const std::vector<FitRow>& rows) {
  std::vector<FitResidual> out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].time) out.push_back({i, false});
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].memory) out.push_back({i, true});
  }
  return out;
}

double log_error(const FitRow& row, bool memory, const Predictor::Answer& answer) {
  return memory ? std::log(answer.memory / *row.memory) : std::log(answer.time / *row.time);
}

}  // namespace

FitRow fit_row(std::size_t at, const CaseFacts& facts, const Prediction& prediction) {
  SoftwareProfile named;
  named.name = prediction.framework;
  named.version = prediction.framework_version;
  return {at,       profile_key(named),   facts.family,
          facts.id, facts.iteration_time, facts.peak_memory_gib};
}

std::vector<Bounds> bounds_of(const std::vector<FreeParameter>& parameters) {
  std::vector<Bounds> bounds;
  for (const FreeParameter& parameter : parameters) {
    bounds.push_back({std::log(parameter.range.low), std::log(parameter.range.high)});
  }
  return bounds;
}

std::vector<Prior> priors_of(const std::vector<Bounds>& bounds) {
  std::vector<Prior> priors;
  for (const Bounds& range : bounds) {
    priors.push_back({(range.low + range.high) / 2, kNoise / ((range.high - range.low) / 4)});
  }
  return priors;
}

Predictor::Predictor(std::vector<PublishedCase> cases, std::vector<FreeParameter> parameters,
                     PredictOptions options, int jobs)
    : cases_(std::move(cases)),
      parameters_(std::move(parameters)),
      options_(std::move(options)),
      jobs_(jobs),
      resolvers_(make_resolvers(data_root(), warnings_)) {}

std::vector<Prediction> Predictor::first() const {
  const auto answers = run_points(
      cases_.size(),
      [&](std::size_t i) { return to_text(predict_case(cases_[i], options_, resolvers_)); },
      {jobs_, "cases", true});
  std::vector<Prediction> out;
  for (const PointAnswer& answer : answers) {
    if (answer.failure.empty()) {
      out.push_back(prediction_from_text(answer.text));
    } else {
      out.emplace_back().skipped = answer.failure;
    }
  }
  return out;
}

Predictor::CompiledCase Predictor::compiled_case(std::size_t at) const {
  CompiledCase out{at, prepare_case(cases_[at], options_, resolvers_), std::nullopt};
  PassLog log;
  auto compiled = compile(out.prepared.model, out.prepared.study, out.prepared.software, log);
  if (auto* program = std::get_if<Program>(&compiled)) out.program = std::move(*program);
  return out;
}

std::vector<std::vector<Predictor::Answer>> Predictor::predict(
    const std::vector<FitRow>& rows, const std::vector<std::vector<LogValues>>& variations) const {
  using Key = std::pair<std::size_t, LogValues>;
  const auto key_of = [&](const FitRow& row, const LogValues& logs) {
    Key key(row.at, {});
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      if (concerns(parameters_[p], row.profile)) key.second.push_back(logs[p]);
    }
    return key;
  };
  // One item each, so that no process ends up with a long row's many variations.
  struct Item {
    const FitRow* row;
    const LogValues* logs;
    Key key;
  };
  std::vector<Item> items;
  std::set<Key> asked;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const LogValues& logs : variations[i]) {
      Key key = key_of(rows[i], logs);
      if (known_.contains(key) || !asked.insert(key).second) continue;
      items.push_back({&rows[i], &logs, std::move(key)});
    }
  }
  // run_points() hears of signals while it works; this one came in between.
  if (const int signal = noted_so_far(); signal != 0) throw Interrupted{signal, {}};
  CompiledCase kept;
  const auto answers = run_points(
      items.size(),
      [&](std::size_t i) {
        if (kept.at != items[i].row->at) kept = compiled_case(items[i].row->at);
        const bool memory = cases_[items[i].row->at].facts.peak_memory_gib.has_value();
        if (!kept.program) return to_text(predict_prepared(kept.prepared, memory));
        apply(parameters_, *items[i].logs, kept.prepared.software);
        return to_text(predict_program(kept.prepared, *kept.program, memory));
      },
      {jobs_, doing_ == nullptr || doing_->empty() ? "predictions" : "predictions; " + *doing_,
       true});
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!answers[i].failure.empty())
      throw BackendError(items[i].row->id + ": " + answers[i].failure);
    const Prediction prediction = prediction_from_text(answers[i].text);
    check(prediction.skipped.empty(), "a case that was predicted once can be predicted again");
    known_[items[i].key] = {prediction.iteration_time,
                            memory_of(prediction, cases_[items[i].row->at].facts.memory_kind)};
  }
  std::vector<std::vector<Answer>> out(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const LogValues& logs : variations[i]) out[i].push_back(known_.at(key_of(rows[i], logs)));
  }
  return out;
}

FitProblem::FitProblem(const Predictor& predictor, std::vector<FitRow> rows)
    : predictor_(predictor),
      rows_(std::move(rows)),
      list_(residuals_of(rows_)) {}

std::vector<double> FitProblem::residuals(const LogValues& logs) const {
  const std::vector<std::vector<LogValues>> one(rows_.size(), {logs});
  const auto answers = predictor_.predict(rows_, one);
  std::vector<double> out;
  for (const FitResidual& residual : list_) {
    out.push_back(log_error(rows_[residual.row], residual.memory, answers[residual.row][0]));
  }
  return out;
}

Matrix FitProblem::jacobian(const LogValues& logs, const std::vector<double>& there,
                            const std::vector<Bounds>& bounds) const {
  std::vector<std::vector<std::size_t>> moved(rows_.size());
  std::vector<std::vector<LogValues>> variations(rows_.size());
  std::vector<double> steps(logs.size());
  for (std::size_t p = 0; p < logs.size(); ++p) {
    steps[p] = logs[p] + kStep <= bounds[p].high ? kStep : -kStep;
    LogValues changed = logs;
    changed[p] += steps[p];
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (!concerns(predictor_.parameters()[p], rows_[i].profile)) continue;
      moved[i].push_back(p);
      variations[i].push_back(changed);
    }
  }
  const auto answers = predictor_.predict(rows_, variations);
  Matrix out(list_.size(), std::vector<double>(logs.size(), 0));
  for (std::size_t r = 0; r < list_.size(); ++r) {
    const std::size_t i = list_[r].row;
    for (std::size_t k = 0; k < moved[i].size(); ++k) {
      const std::size_t p = moved[i][k];
      const double changed = log_error(rows_[i], list_[r].memory, answers[i][k]);
      out[r][p] = (changed - there[r]) / steps[p];
    }
  }
  return out;
}

}  // namespace trainyard
