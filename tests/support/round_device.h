// A device whose times are easy to work out: 100 TFLOP/s in bf16, and 1 TB/s.
#pragma once

#include "engine/cost/hardware_profile.h"

namespace trainyard {

inline HardwareProfile round_device() {
  HardwareProfile device;
  device.name = "round";
  device.peak = {{DType::kBf16, 100e12}};
  device.memory_bandwidth = 1e12;
  return device;
}

}  // namespace trainyard
