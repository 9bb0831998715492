// `trainyard calibrate --device`: measures this machine and writes its profile.
#pragma once

#include <string>
#include <vector>

#include "app/real_options.h"

namespace trainyard {

/// Without a launcher: starts the processes of each set one after the other, writes the profile and
/// its page, within 1.1 times the minutes plus 10 s. In one of those processes: measures. Returns
/// the exit code; throws ConfigError, and BackendError where load has left too few samples.
int run_measure(const MeasureOptions& options, const std::vector<std::string>& arguments);

}  // namespace trainyard
