// What one case came to: the prediction, or why there is none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/validate/ingredients.h"
#include "calibrate/validate/memory_kind.h"
#include "engine/base/units.h"
#include "report/resemblance.h"

namespace trainyard {

/// Why there is no prediction: the case is wrong, its plan cannot run, or what predicts failed.
enum class SkipCause { kInput, kPlan, kFailure };

struct Prediction {
  std::string skipped;  // why there is none: a message with its place; "": there is one
  SkipCause cause = SkipCause::kInput;
  std::string reason;     // the same without a place: what cases are grouped by
  std::string framework;  // of the study; "" where it could not be read
  std::string framework_version;
  std::string device;
  std::int64_t num_gpus = 0;  // ranks of the plan
  Seconds iteration_time = 0;
  RunFeatures features;  // of the study; empty words where it could not be read
  // The fullest pipeline rank: as a driver shows it, and MemoryKind's other two.
  double peak_memory_gib = 0;
  double reserved_gib = 0;
  double allocated_gib = 0;
  bool fits = true;         // a plan that does not fit has its time all the same
  double memory_error = 0;  // docs/contract.md, section 3
  bool may_fit = false;
  Ingredients time{};  // adds up to iteration_time
  std::vector<std::string> warnings;
};

/// The figure of that kind; where it is not known which, the driver's.
double memory_of(const Prediction& prediction, std::optional<MemoryKind> kind);

/// Between processes. Numbers come back exactly.
std::string to_text(const Prediction& prediction);
Prediction prediction_from_text(const std::string& text);

}  // namespace trainyard
