// One process's part of a calibration: the set of measurements with so many processes at work.
#pragma once

#include <string>

#include "calibrate/result/calibration.h"
#include "engine/base/units.h"
#include "real/launch/rank_environment.h"

namespace trainyard {

/// Where measurements are kept until the profile is written.
std::string partial_file(const std::string& out);

/// What partial_file() holds, if there is such a file. Throws ConfigError where it is of another
/// device, machine or version than `fresh`.
Calibration resume_calibration(const std::string& out, Calibration fresh);

/// Measures for `seconds` and goes on from what the file holds; rank 0 saves after every probe.
/// What was timed while others used a CPU's cores, by the figures of load in `stat`, is set aside
/// and timed again; where they stay, the turn ends before its time. `stat`: /proc/stat, or a file
/// of its form.
void calibrate_set(const std::string& out, Seconds seconds, const std::string& stat,
                   const RankEnvironment& environment);

}  // namespace trainyard
