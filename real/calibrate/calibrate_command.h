// `trainyard calibrate --device`: measures this machine and writes its profile.
#pragma once

#include <string>
#include <vector>

#include "engine/base/units.h"

namespace trainyard {

struct MeasureOptions {
  std::string device = "cpu";
  double minutes = 10;
  std::string out = "calibrated.yaml";  // the profile
  Seconds set_seconds = 0;              // of a process that measures: what its set may take
  std::string stat = "/proc/stat";      // figures of load; tests have their own
  bool json = false;
};

/// Without a launcher: starts the processes of each set one after the other, writes the profile and
/// its page, within 1.1 times the minutes plus 10 s. In one of those processes: measures. Returns
/// the exit code; throws ConfigError, and BackendError where load has left too few samples.
int run_measure(const MeasureOptions& options, const std::vector<std::string>& arguments);

}  // namespace trainyard
