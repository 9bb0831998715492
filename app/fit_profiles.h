// `trainyard calibrate --fit` without its printing: the free numbers of the software profiles,
// fitted to the step times and the memory of published runs.
//
// Residuals are ln(predicted / measured). The middle of a parameter's range, on a logarithmic
// scale, is a prior whose strength is the width of the range. Families of sources are left out one
// at a time, each time from the common optimum with the common Jacobian, and their rows are then
// predicted anew.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/predict_case.h"
#include "calibrate/validate/error_stats.h"
#include "study/free_parameters.h"

namespace trainyard {

struct FitProfilesOptions {
  PredictOptions predict;
  std::vector<std::string> selections;  // select_cases(); empty: kFitSelections
  std::string leave_out;                // a family whose rows are predicted only; "": none
  bool leave_one_out = false;           // every family in turn
  int jobs = 0;
};

/// Dense transformers under the frameworks and schedules that this version times; suspect rows
/// never count.
extern const std::vector<std::string> kFitSelections;

struct FittedParameter {
  FreeParameter parameter;  // as its files have it
  double value = 0;         // fitted
  bool at_bound = false;
  std::size_t rows = 0;      // whose prediction depends on it
  std::size_t families = 0;  // of those rows
  std::string only_family;   // the one that it rests on; "": several
};

/// Errors of the step times of one family; memory of the same family apart.
struct FittedFamily {
  std::string family;
  ErrorStats in_sample;
  std::optional<ErrorStats> held_out;  // of rows that were not fitted to; nullopt: not asked for
  std::size_t own_rows = 0;  // left out of held_out: a parameter rests on this family alone
  ErrorStats memory;
  std::optional<ErrorStats> memory_held_out;
};

struct ProfileFit {
  std::vector<FittedParameter> parameters;
  std::size_t num_cases = 0;  // selected
  std::size_t skipped = 0;    // that cannot be predicted
  std::size_t suspect = 0;
  ErrorStats before, after;  // step times of the rows that were fitted to
  std::optional<ErrorStats> held_out;
  ErrorStats memory_before, memory_after;
  std::optional<ErrorStats> memory_held_out;
  std::vector<FittedFamily> families;
  int iterations = 0;
  struct File {
    std::string name;  // megatron-lm-2021.yaml
    std::string text;  // with the fitted values
  };
  std::vector<File> files;  // those with free parameters
  /// A signal ended the fit: values are the best so far, `after` of the rows fitted to; what the
  /// values rest on, and families that were not held out, are missing. 0: none did.
  int signal = 0;
};

/// Throws Interrupted where a signal comes before any step has made the fit better.
ProfileFit fit_profiles(const std::string& path, const FitProfilesOptions& options);

std::string fit_text(const ProfileFit& fit);
std::string fit_json(const ProfileFit& fit);

}  // namespace trainyard
