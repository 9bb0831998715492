// What a sweep answers: one row per point, in the order of the points, and the files made of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/units.h"

namespace trainyard {

enum class PointStatus : std::uint8_t {
  kFits,         // "fits": timed, exit 0 of `simulate`
  kMisfit,       // "does-not-fit": timed, but too large for the devices, exit 4
  kNoProgram,    // "cannot-run": has no Program, exit 4
  kRefused,      // "refused": its study is wrong, exit 2
  kFailed,       // "failed": exit 3
  kInterrupted,  // "interrupted": a signal ended the sweep before it had come to it
};
inline constexpr PointStatus kPointStatuses[] = {
    PointStatus::kFits,    PointStatus::kMisfit, PointStatus::kNoProgram,
    PointStatus::kRefused, PointStatus::kFailed, PointStatus::kInterrupted};
std::string_view to_string(PointStatus status);
int exit_code(PointStatus status);

struct SweepPoint {
  std::vector<std::string> values;  // [key of SweepTable::keys], each as YAML on one line
  PointStatus status = PointStatus::kFits;
  std::string reason;  // one line; "" where status is kFits
  std::vector<std::string> warnings;

  // docs/contract.md, section 3. Of points that were timed.
  Seconds iteration_time = 0;
  double tokens_per_s = 0;
  double tflops_per_gpu = 0;
  double mfu = 0;
  double cost_per_million_tokens = 0;  // 0: the study says no price
  Bytes peak_memory = 0;               // of the fullest pipeline rank
  bool may_fit = false;
  double bubble_fraction = 0;
  double exposed_communication_fraction = 0;
  std::int64_t num_ranks = 0;
  std::string program_digest;

  bool timed() const { return status == PointStatus::kFits || status == PointStatus::kMisfit; }
  double tokens_per_s_per_gpu() const { return tokens_per_s / static_cast<double>(num_ranks); }
};

struct SweepTable {
  std::string study;     // its file
  std::string fidelity;  // of all points, "" where it is swept
  std::vector<std::string> keys;
  std::vector<SweepPoint> points;
};

/// Indices of the points that fit, by step time, or by tokens/s per GPU; the best first, ties by
/// index.
std::vector<std::size_t> fastest(const SweepTable& table);
std::vector<std::size_t> most_per_gpu(const SweepTable& table);

/// Columns of sweep.csv behind the point's number and its values; where a study says a price,
/// kPriceColumn stands behind them.
inline constexpr std::string_view kSweepColumns =
    "status,exit,reason,iteration_time_s,tokens_per_s,tflops_per_gpu,mfu,peak_memory_max_gib,fits,"
    "bubble_fraction,exposed_communication_fraction,num_ranks,program_digest,may_fit";
inline constexpr std::string_view kPriceColumn = "cost_per_million_tokens";

/// sweep.csv: a header, then one row per point; RFC 4180 with line feeds. Numbers read back
/// exactly; what a point does not have is empty.
std::string sweep_csv(const SweepTable& table);

/// sweep.json and --json: {study, fidelity, keys, num_points, by_status, fastest, most_per_gpu,
/// points}; of one that was interrupted also incomplete, the number of points that were not done.
std::string sweep_json(const SweepTable& table);

/// The terminal's answer: the `best` first points of each order, and why the others fell.
std::string sweep_text(const SweepTable& table, std::size_t best);

/// report.html of a sweep: one file that needs nothing else. Of more points than kMaxPagePoints the
/// best are drawn, and the page says so.
std::string sweep_html(const SweepTable& table);
inline constexpr std::size_t kMaxPagePoints = 20'000;

}  // namespace trainyard
