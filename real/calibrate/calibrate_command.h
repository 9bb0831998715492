// `trainyard calibrate --device`: measures this machine and writes its profile.
#pragma once

#include <string>
#include <vector>

#include "cli/real_options.h"

namespace trainyard {

/// Without a launcher: starts the processes of each set one after the other, writes the profile and
/// its page. In one of those processes: measures. Returns the exit code; throws ConfigError and
/// BackendError.
int run_measure(const MeasureOptions& options, const std::vector<std::string>& arguments);

}  // namespace trainyard
