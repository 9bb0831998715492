// A hardware profile from what was measured: the file that cluster.profile names.
#pragma once

#include <string>

#include "calibrate/result/calibration.h"

namespace trainyard {

/// YAML that read_hardware_profile() and find_link() read. Curves of kernels as measured, form by
/// form; the forms that every profile has (GEMMs, attention, memory-bound kernels) fitted to the
/// same points, for kernels whose form was not measured; links with a fit for each collective and
/// number of ranks. Throws ConfigError where too little was measured for a profile.
std::string profile_text(const Calibration& calibration);

/// What was found, in a few lines; `profile` and `page` are the files.
std::string calibration_summary(const Calibration& calibration, const std::string& profile,
                                const std::string& page);
std::string calibration_summary_json(const Calibration& calibration, const std::string& profile,
                                     const std::string& page);

}  // namespace trainyard
