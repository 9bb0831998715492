// A training run against its own simulation: step time, per kind of op, rank, stream and group of
// ranks that communicate, and what explains the difference.
//
// Both sides have the same instructions, those of the run's program.txt, so every predicted row has
// its measured ones. What a kind of op does to the step is found by simulating again with the
// measured times of that kind in place of the predicted ones: a kernel that waits for nobody counts
// in full, a transfer that hides behind another not at all.
#pragma once

#include <cmath>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/validate/run_measurement.h"
#include "engine/exec/costs.h"
#include "engine/exec/time_interval.h"
#include "engine/exec/trace.h"
#include "report/timeline.h"

namespace trainyard {

struct KindComparison {
  std::string kind;  // "linear_dw", "all_reduce:dp", "host"
  bool communication = false;
  double count = 0;       // per step and rank, mean
  Seconds predicted = 0;  // per step and rank, mean
  Seconds measured = 0;   // mean of the middle steps
  Seconds effect = 0;     // what measured times of this kind alone add to the simulated step
};

/// Kernels of one form and shape.
struct OpComparison {
  KernelWork work;
  double count = 0;       // per step, over all ranks
  Seconds predicted = 0;  // of one
  double interval = 0;    // half of the stated 90 % interval, over `predicted`; 0: none is stated
  Seconds measured = 0;   // median over ranks, microbatches and the timed steps
  bool inside() const { return std::abs(measured - predicted) <= interval * predicted; }
};

struct RankComparison {
  std::int64_t rank = 0;
  TimeClasses predicted, measured;  // add up to the predicted and to the median step
};

/// Seconds per step in which an op of the stream runs.
struct StreamComparison {
  std::int64_t rank = 0;
  StreamId stream = StreamId::kMain;
  Seconds predicted = 0, measured = 0;
};

/// What one group of ranks, or a sender and its receiver, communicate.
struct LinkComparison {
  std::string kind;                 // "all_reduce:dp"
  std::vector<std::int64_t> ranks;  // transfers: the sender first
  double count = 0;                 // per step
  double bytes = 0;                 // per step, as the Program says
  Seconds predicted = 0,
          measured = 0;  // per step, from when the last member is ready; mean of the middle steps
};

struct RunComparison {
  std::string run;  // its folder
  std::string program_digest;
  std::string device;
  std::int64_t num_ranks = 0, cores = 0, threads_per_rank = 0;
  bool oversubscribed = false;
  std::size_t num_steps = 0;  // that the measured step time is the median of
  Seconds predicted = 0;
  Seconds measured = 0;  // median; low and high: a tenth of the steps is beyond each
  Seconds measured_low = 0, measured_high = 0;
  Seconds with_measured = 0;          // simulated with all measured times
  std::vector<KindComparison> kinds;  // the greatest effect first
  std::vector<OpComparison> ops;      // the most measured time first
  std::optional<TimeInterval>
      interval;  // of the predicted step; absent: the profile states no intervals
  std::vector<RankComparison> ranks;
  std::vector<StreamComparison> streams;
  std::vector<LinkComparison> links;
  std::vector<std::string> warnings;
  Timeline timeline;   // of the measured median step
  Timeline simulated;  // of the predicted one
};

struct RunInputs {
  const Program& program;
  const Costs& costs;      // predicted
  const Trace& predicted;  // unfolded, with the rows of all ranks
  const RunMeasurement& measured;
  std::function<Seconds(const Costs&)> step_time;  // simulates again
  const CostUncertainty* uncertainty = nullptr;    // of `costs`; nullptr: the profile states none
};

RunComparison compare_run(const RunInputs& in);

std::string run_comparison_text(const RunComparison& comparison);
std::string run_comparison_json(const RunComparison& comparison);
/// report.html: the tables, and both timelines above each other; at most kMaxReportBytes
/// (report/report.h).
std::string run_comparison_page(const RunComparison& comparison);
/// What summary.json and the page hold.
nlohmann::ordered_json run_comparison_data(const RunComparison& comparison);

}  // namespace trainyard
