// What a calibration is of: this machine, its devices, the versions that ran on it.
#pragma once

#include "calibrate/result/calibration.h"

namespace trainyard {

/// An empty calibration of `device`, cpu or cuda, begun now. Throws BackendError where there is no
/// GPU.
Calibration begin_calibration(const std::string& device, const std::string& command);

}  // namespace trainyard
