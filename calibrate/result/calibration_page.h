// The page of a calibration: every curve with its points.
#pragma once

#include <string>

#include "calibrate/result/calibration.h"

namespace trainyard {

/// One self-contained HTML file.
std::string calibration_page(const Calibration& calibration, const std::string& title);

}  // namespace trainyard
