// Every point of a sweep, run over several processes.
#pragma once

#include <string>
#include <vector>

#include "report/sweep_table.h"
#include "study/sweep.h"
#include "study/yaml_reader.h"

namespace trainyard {

struct SweepJob {
  YamlNode study;  // without its sweep block
  Sweep sweep;
  std::vector<std::string> sets;  // --set: applied to each point, over what it sweeps
  int jobs = 0;                   // processes; 0: one per core
};

struct SweepRows {
  std::vector<SweepPoint> points;
  int signal = 0;  // that ended the sweep; points that were not done are PointStatus::kInterrupted
};

/// The rows of all points, in their order; they do not depend on the number of processes. A point
/// that cannot run is a row with its reason. Throws ConfigError for a key that no study has, and
/// where every point is refused for one reason: that is the study's, not the points'.
SweepRows run_sweep_points(const SweepJob& job);

}  // namespace trainyard
