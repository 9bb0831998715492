// Predictions against measurements: every case's errors, and what is said of them together.
//
// Pure data: validate_command.cpp makes the predictions, the other files of this folder print.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/validate/case_list.h"
#include "calibrate/validate/error_regression.h"
#include "calibrate/validate/error_stats.h"
#include "calibrate/validate/prediction.h"
#include "calibrate/validate/rank_correlation.h"
#include "calibrate/validate/sensitivity.h"

namespace trainyard {

struct CaseOutcome {
  CaseFacts facts;
  Prediction prediction;
  std::optional<Resemblance> resembles = {};  // of cases that were predicted
};

/// One comparison: of a case's step time, or of its memory.
struct ErrorRow {
  enum class Kind : std::uint8_t { kTime, kMemory };
  std::size_t outcome = 0;  // index into Validation::outcomes
  Kind kind = Kind::kTime;
  std::optional<double> predicted;  // seconds, or GiB; nullopt: skipped
  std::optional<double> measured;   // nullopt: the case does not say it
  std::optional<double> error_percent;
  bool scored = false;  // it has an error, and its case is not suspect
};
std::string_view to_string(ErrorRow::Kind kind);

/// Rows that have something in common.
struct ErrorGroup {
  std::string name;
  ErrorStats stats;         // of the scored ones
  std::size_t suspect = 0;  // predicted, not scored
  std::size_t skipped = 0;
};

/// What is said of the rows of one kind.
struct ErrorSummary {
  ErrorGroup all;
  std::vector<ErrorGroup> by_source;       // by family, in the order of the list
  std::vector<ErrorGroup> by_framework;    // "megatron-lm", by name
  std::vector<ErrorGroup> by_version;      // "megatron-lm 2022", by name
  std::vector<ErrorGroup> by_device;       // by name
  std::vector<ErrorGroup> by_scale;        // by number of GPUs
  std::vector<ErrorGroup> by_memory_kind;  // of memory alone, by word
};

struct FamilyOrder {
  std::string family;
  std::size_t rows = 0;
  RankCorrelation correlation;
};

struct Skipped {
  std::string reason;
  std::string first;  // the first such case's message, which says the place
  std::vector<std::string> ids;
};

struct Validation {
  std::string file;
  std::vector<CaseOutcome> outcomes;  // in the order of the list
  std::vector<ErrorRow> rows;         // of each outcome its time, then its memory
  ErrorSummary time;
  ErrorSummary memory;
  std::vector<FamilyOrder> order;               // families with at least kLeastFamily scored times
  std::optional<double> mean_tau;               // of those with a pair that counts
  ErrorRegression regression;                   // of the scored times
  std::vector<Skipped> skipped;                 // by reason, the most frequent first
  std::optional<Sensitivity> sensitivity = {};  // of the fitted numbers, where it was asked for
};

inline constexpr std::size_t kLeastFamily = 5;    // rows, for a tau
inline constexpr double kLeastDifference = 0.05;  // of a pair's measured times, for it to count

/// Suspect cases are predicted and listed, but no summary, tau or regression has them.
Validation validate(std::string file, std::vector<CaseOutcome> outcomes);

/// "9 to 64 GPUs": the bucket of a number of GPUs.
std::string scale_of(std::int64_t num_gpus);

/// {cases, summary} of docs/contract.md, section 3, with more keys.
nlohmann::ordered_json validation_data(const Validation& validation);
std::string validation_json(const Validation& validation);
/// For a terminal.
std::string validation_text(const Validation& validation);
/// One line per row, with a header.
std::string validation_csv(const Validation& validation);
/// report.html: the same as a page that needs nothing else.
std::string validation_report(const Validation& validation);

}  // namespace trainyard
