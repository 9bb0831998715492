// The rows that profiles are fitted to, as residuals ln(predicted / measured) and their derivatives
// by the logarithms of the free parameters.
#pragma once

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/predict_case.h"
#include "calibrate/validate/robust_fit.h"
#include "engine/program/program.h"
#include "study/free_parameters.h"

namespace trainyard {

using LogValues = std::vector<double>;  // ln of each parameter's value

/// One case that is fitted to, or held out.
struct FitRow {
  std::size_t at = 0;   // index into Predictor::cases()
  std::string profile;  // profile_key()
  std::string family;
  std::string id;
  std::optional<double> time, memory;  // measured: seconds, GiB
};

FitRow fit_row(std::size_t at, const CaseFacts& facts, const Prediction& prediction);

/// Those of the logarithms of the values.
std::vector<Bounds> bounds_of(const std::vector<FreeParameter>& parameters);

/// The range of a parameter is what is believed without any run: 95 % of a normal distribution of
/// its logarithm. A parameter that the runs say little about stays near its middle.
std::vector<Prior> priors_of(const std::vector<Bounds>& bounds);

/// Predicts cases under changed profiles, in several processes.
class Predictor {
 public:
  struct Answer {
    double time = 0;    // seconds
    double memory = 0;  // GiB
  };

  Predictor(std::vector<PublishedCase> cases, std::vector<FreeParameter> parameters,
            PredictOptions options, int jobs);

  const std::vector<PublishedCase>& cases() const { return cases_; }
  const std::vector<FreeParameter>& parameters() const { return parameters_; }

  /// What `doing` says stands behind the count of predictions on a terminal. It outlives this.
  void show_with(const std::string& doing) { doing_ = &doing; }

  /// Every case under the profiles as they are.
  std::vector<Prediction> first() const;

  /// [row][variation], for the variations that each row asks for. What has been predicted once
  /// under the same values of its profile's parameters is remembered.
  std::vector<std::vector<Answer>> predict(
      const std::vector<FitRow>& rows, const std::vector<std::vector<LogValues>>& variations) const;

 private:
  /// No parameter of a fit changes what a Program is, so one serves all variations of its row.
  struct CompiledCase {
    std::size_t at = std::numeric_limits<std::size_t>::max();
    Prepared prepared;
    std::optional<Program> program;  // nullopt: the plan cannot be built
  };
  CompiledCase compiled_case(std::size_t at) const;

  std::vector<PublishedCase> cases_;
  std::vector<FreeParameter> parameters_;
  PredictOptions options_;
  int jobs_;
  const std::string* doing_ = nullptr;
  std::vector<std::string> warnings_;
  StudyResolvers resolvers_;
  mutable std::map<std::pair<std::size_t, LogValues>, Answer>
      known_;  // [case, values of its profile]
};

/// One residual of a row.
struct FitResidual {
  std::size_t row = 0;
  bool memory = false;  // else its step time
};

class FitProblem {
 public:
  /// `predictor` must outlive it.
  FitProblem(const Predictor& predictor, std::vector<FitRow> rows);

  const std::vector<FitRow>& rows() const { return rows_; }
  const std::vector<FitResidual>& list() const {
    return list_;
  }  // times, then memory, in the rows' order
  const std::string& family_of(std::size_t residual) const {
    return rows_[list_[residual].row].family;
  }

  std::vector<double> residuals(const LogValues& logs) const;

  /// Differences over 2 % of each value, forward, or backward at an upper bound.
  Matrix jacobian(const LogValues& logs, const std::vector<double>& there,
                  const std::vector<Bounds>& bounds) const;

 private:
  const Predictor& predictor_;
  std::vector<FitRow> rows_;
  std::vector<FitResidual> list_;
};

}  // namespace trainyard
