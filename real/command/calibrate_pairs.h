// `trainyard calibrate --pairs`: what every two devices of this machine take for a message.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/real_options.h"
#include "real/launch/rank_environment.h"

namespace trainyard {

/// Without a launcher: starts a process for each device, and says what the file has that they have
/// written. In one of those processes: measures. Returns the exit code; throws ConfigError, and
/// BackendError where there are no two devices.
int run_pairs(const MeasureOptions& options, const std::vector<std::string>& arguments,
              const std::optional<RankEnvironment>& environment);

}  // namespace trainyard
